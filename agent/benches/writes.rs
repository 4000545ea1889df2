//! Measures a write that is not a record, in one run: unhooked, hooked while no capture runs, and during one. Also
//! measures a section of your own, while no capture runs and during one. (`benches/peers` measures records.)
//!
//! `cargo bench -p tracetee-agent --bench writes`. Each sample is 10,000 writes; divide the times
//! by that, or read the items a second.

#![allow(missing_docs, reason = "a program")]
#![allow(clippy::disallowed_methods, reason = "write through this program's own, hooked, slot")]
#![allow(clippy::unwrap_used, reason = "a bench that cannot run may stop")]

use divan::{Bencher, black_box, counter::ItemsCount};
use std::fs::File;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use tracetee::{Config, PassOnSetting};

/// This program is its own libcutils: `build.rs` exports the two symbols.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "libcutils' name")]
static atrace_enabled_tags: AtomicU64 = AtomicU64::new(1);
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "libcutils' name")]
static atrace_marker_fd: AtomicI32 = AtomicI32::new(-1);

const WRITES: u32 = 10_000;

fn main() {
    let null = File::options().write(true).open("/dev/null").unwrap();
    atrace_marker_fd.store(null.into_raw_fd(), Ordering::Relaxed);
    divan::main();
}

/// A running capture; stopped when dropped.
struct Capture;

impl Capture {
    fn start() -> Self {
        let mut config = Config { pass_on: PassOnSetting::Never, ..Config::default() };
        config.recorder.capacity_kb = 4 * 1024;
        config.recorder.mode = tracetee::Mode::Ring;
        tracetee::start(&config).unwrap();
        Self
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        tracetee::stop().unwrap();
    }
}

fn write_all(fd: i32, bytes: &[u8]) {
    for _ in 0..WRITES {
        let bytes = black_box(bytes);
        // SAFETY: a buffer of the length given.
        black_box(unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) });
    }
}

#[divan::bench(sample_count = 200, sample_size = 1)]
fn dev_null_write_unhooked(bencher: Bencher<'_, '_>) {
    let null = File::options().write(true).open("/dev/null").unwrap();
    bencher.counter(ItemsCount::new(WRITES)).bench(|| write_all(null.as_raw_fd(), b"hello, world"));
}

/// The hooks are in place, the capture's time is over: what every `write` of the app costs then.
#[divan::bench(sample_count = 200, sample_size = 1)]
fn dev_null_write_hooked_and_off(bencher: Bencher<'_, '_>) {
    let null = File::options().write(true).open("/dev/null").unwrap();
    tracetee::start(&Config { duration_ms: Some(1), ..Config::default() }).unwrap();
    let capture = Capture;
    std::thread::sleep(std::time::Duration::from_millis(5));
    // The first record after its time ends it.
    write_all(atrace_marker_fd.load(Ordering::Relaxed), b"E|12345");
    assert!(!tracetee::health().unwrap().recording);
    bencher.counter(ItemsCount::new(WRITES)).bench(|| write_all(null.as_raw_fd(), b"hello, world"));
    drop(capture);
}

#[divan::bench(sample_count = 200, sample_size = 1)]
fn dev_null_write_during_a_capture(bencher: Bencher<'_, '_>) {
    let null = File::options().write(true).open("/dev/null").unwrap();
    let _capture = Capture::start();
    bencher.counter(ItemsCount::new(WRITES)).bench(|| write_all(null.as_raw_fd(), b"hello, world"));
}

fn sections() {
    for _ in 0..WRITES {
        drop(black_box(tracetee::Section::begin(black_box("decode"))));
    }
}

#[divan::bench(sample_count = 200, sample_size = 1)]
fn own_section_while_off(bencher: Bencher<'_, '_>) {
    bencher.counter(ItemsCount::new(WRITES)).bench(sections);
}

#[divan::bench(sample_count = 200, sample_size = 1)]
fn own_section_during_a_capture(bencher: Bencher<'_, '_>) {
    let _capture = Capture::start();
    (0..10).for_each(|_| sections());
    bencher.counter(ItemsCount::new(WRITES)).bench(sections);
}
