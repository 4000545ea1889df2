//! What one record costs on the app's thread, side by side in one run: teed by the agent, written
//! to the kernel's trace_marker, and the floor (reading the clock, copying the bytes). And what a
//! write that is no record costs through the hook.
//!
//! `cargo bench -p tracetee-agent --bench record`. Each sample is 10,000 records; divide the times
//! by that, or read the items a second. As root with tracefs mounted the kernel takes part.

#![allow(missing_docs, reason = "a program")]
#![allow(clippy::disallowed_methods, reason = "write through this program's own, hooked, slot")]
#![allow(clippy::print_stdout, reason = "a skipped bench says so")]
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

const RECORDS: u32 = 10_000;
const BEGIN: &[u8; 36] = b"B|12345|Choreographer#doFrame 123456";

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
    for _ in 0..RECORDS {
        let bytes = black_box(bytes);
        // SAFETY: a buffer of the length given.
        black_box(unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) });
    }
}

/// libcutils has its buffer on the stack.
fn write_from_the_stack(fd: i32) {
    let buffer = black_box(*BEGIN);
    write_all(fd, &buffer);
}

#[divan::bench(sample_count = 200, sample_size = 1)]
fn floor_clock_and_copy(bencher: Bencher<'_, '_>) {
    let bytes = RECORDS as usize * 48;
    bencher.counter(ItemsCount::new(RECORDS)).with_inputs(|| vec![1u8; bytes]).bench_refs(
        |memory| {
            let record = black_box(*BEGIN);
            for chunk in memory.chunks_exact_mut(48) {
                let (time, text) = chunk.split_at_mut(12);
                time[..8].copy_from_slice(&tracetee::clock::boot_ns().to_ne_bytes());
                text.copy_from_slice(black_box(&record));
            }
        },
    );
}

#[divan::bench(sample_count = 200, sample_size = 1)]
fn floor_counter_and_copy(bencher: Bencher<'_, '_>) {
    let bytes = RECORDS as usize * 48;
    bencher.counter(ItemsCount::new(RECORDS)).with_inputs(|| vec![1u8; bytes]).bench_refs(
        |memory| {
            let record = black_box(*BEGIN);
            for chunk in memory.chunks_exact_mut(48) {
                let (time, text) = chunk.split_at_mut(12);
                time[..8].copy_from_slice(&tracetee::clock::counter().to_ne_bytes());
                text.copy_from_slice(black_box(&record));
            }
        },
    );
}

#[divan::bench(sample_count = 200, sample_size = 1)]
fn teed_write(bencher: Bencher<'_, '_>) {
    let fd = atrace_marker_fd.load(Ordering::Relaxed);
    let _capture = Capture::start();
    // Once around the ring: from then on no page is touched for the first time.
    (0..10).for_each(|_| write_from_the_stack(fd));
    bencher.counter(ItemsCount::new(RECORDS)).bench(|| write_from_the_stack(fd));
}

#[divan::bench(sample_count = 200, sample_size = 1)]
fn kernel_trace_marker_write(bencher: Bencher<'_, '_>) {
    let marker = File::options().write(true).open("/sys/kernel/tracing/trace_marker");
    let tracing_on = std::fs::write("/sys/kernel/tracing/tracing_on", "1");
    let Some(marker) = marker.ok().filter(|_| tracing_on.is_ok()) else {
        println!("skipped: no trace_marker that may be written (root, mount -t tracefs)");
        return;
    };
    bencher.counter(ItemsCount::new(RECORDS)).bench(|| write_from_the_stack(marker.as_raw_fd()));
}

#[divan::bench(sample_count = 200, sample_size = 1)]
fn dev_null_write_unhooked(bencher: Bencher<'_, '_>) {
    let null = File::options().write(true).open("/dev/null").unwrap();
    bencher
        .counter(ItemsCount::new(RECORDS))
        .bench(|| write_all(null.as_raw_fd(), b"hello, world"));
}

/// The hooks are in place, the capture's time is over: what every `write` of the app costs then.
#[divan::bench(sample_count = 200, sample_size = 1)]
fn dev_null_write_hooked_and_off(bencher: Bencher<'_, '_>) {
    let null = File::options().write(true).open("/dev/null").unwrap();
    tracetee::start(&Config { duration_ms: Some(1), ..Config::default() }).unwrap();
    let capture = Capture;
    std::thread::sleep(std::time::Duration::from_millis(5));
    write_from_the_stack(atrace_marker_fd.load(Ordering::Relaxed));
    assert!(!tracetee::stats().unwrap().recording);
    bencher
        .counter(ItemsCount::new(RECORDS))
        .bench(|| write_all(null.as_raw_fd(), b"hello, world"));
    drop(capture);
}

#[divan::bench(sample_count = 200, sample_size = 1)]
fn dev_null_write_during_a_capture(bencher: Bencher<'_, '_>) {
    let null = File::options().write(true).open("/dev/null").unwrap();
    let _capture = Capture::start();
    bencher
        .counter(ItemsCount::new(RECORDS))
        .bench(|| write_all(null.as_raw_fd(), b"hello, world"));
}
