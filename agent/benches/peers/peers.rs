//! Measures the cost of a record on the app's thread: for the agent, as a lower bound, in the kernel, and with
//! other tools, in one run. A record is a begin of 36 bytes, or a peer's equivalent; a span of a peer
//! counts as two.
//!
//! `cargo bench -p tracetee-peers`. Each sample is 10,000 records: divide the times by that, or
//! read the items a second. As root with tracefs mounted the kernel takes part; LTTng does where
//! `lttng-sessiond` and its headers are installed.

#![allow(missing_docs, reason = "a program")]
#![allow(clippy::disallowed_methods, reason = "write through this program's own, hooked, slot")]
#![allow(clippy::print_stdout, reason = "a skipped bench says so")]
#![allow(clippy::unwrap_used, reason = "a bench that cannot run may stop")]

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use std::ffi::{CStr, CString, c_char, c_long};
use std::fs::File;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
mod perfetto;

use perfetto::perfetto_te_ns;
use tracetee::{ClockSetting, Config, Mode, PassOnSetting};

/// This program is its own libcutils.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "libcutils' name")]
static atrace_enabled_tags: AtomicU64 = AtomicU64::new(1);
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "libcutils' name")]
static atrace_marker_fd: AtomicI32 = AtomicI32::new(-1);

/// As libcutils does it: format on the stack, write.
#[unsafe(no_mangle)]
unsafe extern "C" fn atrace_begin_body(name: *const c_char) {
    let mut buffer = [0u8; 1024];
    let (to, size) = (buffer.as_mut_ptr().cast(), buffer.len());
    // SAFETY: a buffer of that size, and arguments as the format says. (getpid is a system call on
    // current C libraries; it is left out, for the benefit of this side.)
    let len = unsafe { libc::snprintf(to, size, c"B|%d|%s".as_ptr(), 12345, name) };
    let fd = atrace_marker_fd.load(Ordering::Relaxed);
    // SAFETY: `len` bytes of the buffer.
    unsafe { libc::write(fd, buffer.as_ptr().cast(), usize::try_from(len).unwrap_or(0)) };
}

const RECORDS: u32 = 10_000;
/// The flight recorder's size.
const RING_BYTES: usize = 4 << 20;
const BEGIN: &[u8; 36] = b"B|12345|Choreographer#doFrame 123456";
const NAME: &CStr = c"Choreographer#doFrame 123456";

fn main() {
    let null = File::options().write(true).open("/dev/null").unwrap();
    atrace_marker_fd.store(null.into_raw_fd(), Ordering::Relaxed);
    divan::main();
}

fn items() -> ItemsCount {
    ItemsCount::new(RECORDS)
}

// ---- the floor ----

fn floor(bencher: Bencher<'_, '_>, clock: impl Fn() -> u64 + Sync) {
    // As much memory as the ring has, so that it is in the same cache.
    bencher.counter(items()).with_inputs(|| vec![1u8; RING_BYTES]).bench_refs(|memory| {
        let record = black_box(*BEGIN);
        for chunk in memory.chunks_exact_mut(48).take(RECORDS as usize) {
            let (time, text) = chunk.split_at_mut(12);
            time[..8].copy_from_slice(&clock().to_ne_bytes());
            text.copy_from_slice(black_box(&record));
        }
    });
}

#[divan::bench(sample_count = 200, sample_size = 1, threads = [1, 2])]
fn floor_counter_and_copy(bencher: Bencher<'_, '_>) {
    floor(bencher, tracetee_recorder::clock::counter);
}

#[divan::bench(sample_count = 200, sample_size = 1)]
fn floor_boot_clock_and_copy(bencher: Bencher<'_, '_>) {
    floor(bencher, tracetee_recorder::clock::boot_ns);
}

// ---- tracetee ----

/// A running capture; stopped when dropped.
struct Capture;

impl Capture {
    fn start(fast_path: bool, clock: ClockSetting) -> Self {
        let mut config = Config { pass_on: PassOnSetting::Never, fast_path, ..Config::default() };
        config.recorder.mode = Mode::Ring;
        config.recorder.capacity_kb = RING_BYTES as u64 / 1024;
        config.recorder.clock = clock;
        tracetee::start(&config).unwrap();
        let capture = Self;
        // Once around the ring: from then on no page is touched for the first time.
        (0..10).for_each(|_| write_from_the_stack(atrace_marker_fd.load(Ordering::Relaxed)));
        capture
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        tracetee::stop().unwrap();
    }
}

/// libcutils has its buffer on the stack.
fn write_from_the_stack(fd: i32) {
    let buffer = black_box(*BEGIN);
    for _ in 0..RECORDS {
        let bytes = black_box(&buffer);
        // SAFETY: a buffer of the length given.
        black_box(unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) });
    }
}

#[divan::bench(sample_count = 200, sample_size = 1, threads = [1, 2])]
fn tracetee_teed_write(bencher: Bencher<'_, '_>) {
    let _capture = Capture::start(false, ClockSetting::Auto);
    let fd = atrace_marker_fd.load(Ordering::Relaxed);
    bencher.counter(items()).bench(|| write_from_the_stack(fd));
}

#[divan::bench(sample_count = 200, sample_size = 1)]
fn tracetee_teed_write_boot_clock(bencher: Bencher<'_, '_>) {
    let _capture = Capture::start(false, ClockSetting::Boot);
    let fd = atrace_marker_fd.load(Ordering::Relaxed);
    bencher.counter(items()).bench(|| write_from_the_stack(fd));
}

#[divan::bench(sample_count = 200, sample_size = 1)]
fn tracetee_teed_write_while_dumping(bencher: Bencher<'_, '_>) {
    let _capture = Capture::start(false, ClockSetting::Auto);
    let fd = atrace_marker_fd.load(Ordering::Relaxed);
    let path = std::env::temp_dir().join("tracetee-peers.ftrace.zst");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                tracetee::dump(&path).unwrap();
            }
        });
        bencher.counter(items()).bench(|| write_from_the_stack(fd));
        done.store(true, Ordering::Relaxed);
    });
    let _ = std::fs::remove_file(path);
}

#[divan::bench(sample_count = 200, sample_size = 1)]
fn tracetee_snprintf_and_teed_write(bencher: Bencher<'_, '_>) {
    let call = caller();
    let _capture = Capture::start(false, ClockSetting::Auto);
    bencher.counter(items()).bench(|| call(c_long::from(RECORDS), NAME.as_ptr()));
}

#[divan::bench(sample_count = 200, sample_size = 1)]
fn tracetee_fast_path(bencher: Bencher<'_, '_>) {
    let call = caller();
    let _capture = Capture::start(true, ClockSetting::Auto);
    bencher.counter(items()).bench(|| call(c_long::from(RECORDS), NAME.as_ptr()));
}

// ---- the kernel ----

#[divan::bench(sample_count = 200, sample_size = 1)]
fn kernel_trace_marker_write(bencher: Bencher<'_, '_>) {
    let marker = File::options().write(true).open("/sys/kernel/tracing/trace_marker");
    let tracing_on = std::fs::write("/sys/kernel/tracing/tracing_on", "1");
    let Some(marker) = marker.ok().filter(|_| tracing_on.is_ok()) else {
        println!("skipped: no trace_marker that may be written (root, mount -t tracefs)");
        return;
    };
    bencher.counter(items()).bench(|| write_from_the_stack(marker.as_raw_fd()));
}

// ---- others ----

#[divan::bench(sample_count = 100, sample_size = 1)]
fn tracy_static_zone(bencher: Bencher<'_, '_>) {
    let client = tracy_client::Client::start();
    bencher.counter(items()).bench(|| {
        for _ in 0..RECORDS / 2 {
            let location = tracy_client::span_location!("Choreographer#doFrame");
            black_box(client.clone().span(location, 0));
        }
    });
}

#[divan::bench(sample_count = 100, sample_size = 1)]
fn tracy_dynamic_zone(bencher: Bencher<'_, '_>) {
    let client = tracy_client::Client::start();
    let name = NAME.to_str().unwrap();
    bencher.counter(items()).bench(|| {
        for _ in 0..RECORDS / 2 {
            black_box(client.clone().span_alloc(Some(black_box(name)), "f", "file", 1, 0));
        }
    });
}

#[divan::bench(sample_count = 200, sample_size = 1)]
fn fastrace_local_span(bencher: Bencher<'_, '_>) {
    struct Ignore;
    impl fastrace::collector::Reporter for Ignore {
        fn report(&mut self, spans: Vec<fastrace::collector::SpanRecord>) {
            black_box(spans);
        }
    }
    fastrace::set_reporter(Ignore, fastrace::collector::Config::default());
    bencher.counter(items()).bench(|| {
        // A local parent holds some thousand spans at most: as many roots as that takes.
        for _ in 0..5 {
            let root = fastrace::Span::root("root", fastrace::collector::SpanContext::random());
            let _parent = root.set_local_parent();
            for _ in 0..RECORDS / 10 {
                drop(black_box(fastrace::local::LocalSpan::enter_with_local_parent("doFrame")));
            }
        }
    });
}

#[divan::bench(sample_count = 100, sample_size = 1)]
fn perfetto_sdk_begin_and_end(bencher: Bencher<'_, '_>) {
    use perfetto_sdk::{track_event_begin, track_event_end};
    let mut session = perfetto::session(4096);
    bencher.counter(items()).bench(|| {
        for _ in 0..RECORDS / 2 {
            track_event_begin!("bench", "Choreographer#doFrame 123456");
            track_event_end!("bench");
        }
    });
    session.stop_blocking();
}

/// Message of a naive queue: time and text.
type Message = (u64, [u8; 36]);

fn message() -> Message {
    (tracetee_recorder::clock::counter(), black_box(*BEGIN))
}

#[divan::bench(sample_count = 200, sample_size = 1)]
fn naive_std_mpsc(bencher: Bencher<'_, '_>) {
    bencher.counter(items()).with_inputs(std::sync::mpsc::channel::<Message>).bench_refs(
        |(sender, _receiver)| {
            for _ in 0..RECORDS {
                let _ = sender.send(message());
            }
        },
    );
}

#[divan::bench(sample_count = 200, sample_size = 1)]
fn naive_crossbeam_channel(bencher: Bencher<'_, '_>) {
    let size = RECORDS as usize;
    bencher
        .counter(items())
        .with_inputs(|| crossbeam_channel::bounded::<Message>(size))
        .bench_refs(|(sender, _receiver)| {
            for _ in 0..RECORDS {
                let _ = sender.try_send(message());
            }
        });
}

#[divan::bench(sample_count = 200, sample_size = 1, threads = [1, 2])]
fn naive_crossbeam_array_queue(bencher: Bencher<'_, '_>) {
    let queue = crossbeam_queue::ArrayQueue::<Message>::new(RECORDS as usize);
    bencher.counter(items()).bench(|| {
        for _ in 0..RECORDS {
            queue.force_push(message());
        }
    });
}

#[divan::bench(sample_count = 200, sample_size = 1)]
fn lttng_ust_string(bencher: Bencher<'_, '_>) {
    let Some(call) = lttng() else {
        println!("skipped: no LTTng (lttng-tools, liblttng-ust-dev, a session daemon)");
        return;
    };
    bencher.counter(items()).bench(|| call(c_long::from(RECORDS), NAME.as_ptr()));
    let _ = Command::new("lttng").args(["destroy", "tracetee-bench"]).output();
}

// ---- C ----

type Call = extern "C" fn(c_long, *const c_char);

/// The loop of `caller.c`.
fn caller() -> Call {
    static CALL: OnceLock<Call> = OnceLock::new();
    *CALL.get_or_init(|| load("caller.c", &[], c"call_atrace").unwrap())
}

/// Compiles a C file of this directory as a library, loads it and looks up its function.
fn load(source: &str, arguments: &[&str], symbol: &CStr) -> Option<Call> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out: PathBuf =
        std::env::temp_dir().join(format!("tracetee-peers-{}-{source}.so", std::process::id()));
    let status = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
        .args(["-O2", "-shared", "-fPIC", "-I"])
        .arg(directory)
        .arg("-o")
        .arg(&out)
        .arg(directory.join(source))
        .args(arguments)
        .output()
        .ok()?
        .status;
    if !status.success() {
        return None;
    }
    let path = CString::new(out.to_str()?).ok()?;
    // SAFETY: a C string; the library's constructors are the compiler's.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    let _ = std::fs::remove_file(out);
    // SAFETY: dlsym takes a null handle, too.
    let function = unsafe { libc::dlsym(handle, symbol.as_ptr()) };
    // SAFETY: the C file's function has this signature; a null is not a function.
    (!function.is_null())
        .then(|| unsafe { std::mem::transmute::<*mut libc::c_void, Call>(function) })
}

/// The loop of `lttng.c` in its own session, in memory (a snapshot session: a ring).
fn lttng() -> Option<Call> {
    let lttng = |arguments: &[&str]| {
        Command::new("lttng").args(arguments).output().is_ok_and(|output| output.status.success())
    };
    Command::new("lttng-sessiond").args(["--daemonize", "--no-kernel"]).output().ok()?;
    let _ = lttng(&["destroy", "tracetee-bench"]);
    let ready = lttng(&["create", "tracetee-bench", "--snapshot", "--output=/tmp/tracetee-lttng"])
        && lttng(&[
            "enable-channel",
            "-u",
            "c",
            "--subbuf-size=1M",
            "--num-subbuf=4",
            "--overwrite",
        ])
        && lttng(&["enable-event", "-u", "-c", "c", "tracetee_bench:record"])
        && lttng(&["start"]);
    if !ready {
        return None;
    }
    let call = load("lttng.c", &["-llttng-ust", "-ldl"], c"call_lttng")?;
    // The library registers with the daemon on its own thread.
    std::thread::sleep(std::time::Duration::from_secs(1));
    Some(call)
}
