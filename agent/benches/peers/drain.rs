//! Measures the time after recording: the speed at which records become a trace, their bytes on the wire, and the
//! recorder's memory beyond its capacity; compared with other tools on the same events in the same run. Prints a
//! table.
//!
//! `cargo bench -p tracetee-peers --bench drain`. `trace-cmd report` takes part as root with
//! tracefs mounted and trace-cmd installed.

#![allow(missing_docs, reason = "a program")]
#![allow(clippy::disallowed_methods, reason = "write through this program's own, hooked, slot")]
#![allow(clippy::print_stdout, reason = "the table")]
#![allow(clippy::unwrap_used, reason = "a bench that cannot run may stop")]
#![allow(clippy::cast_precision_loss, reason = "ratios")]

mod perfetto;

use perfetto::perfetto_te_ns;
use perfetto_sdk::{track_event_begin, track_event_end};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};
use tracetee::{Config, Mode, PassOnSetting};

#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "libcutils' name")]
static atrace_enabled_tags: AtomicU64 = AtomicU64::new(1);
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "libcutils' name")]
static atrace_marker_fd: AtomicI32 = AtomicI32::new(-1);

fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    if let [_, memory, mode, threads] = &arguments[..]
        && memory == "memory"
    {
        return print_memory(mode, threads.parse().unwrap());
    }
    let null = File::options().write(true).open("/dev/null").unwrap();
    atrace_marker_fd.store(null.into_raw_fd(), Ordering::Relaxed);
    // `cargo bench -- --test` shows that it runs.
    let frames = if arguments.iter().any(|argument| argument == "--test") { 500 } else { 50_000 };
    drain(frames);
    wire(frames / 5);
    for mode in ["startup", "ring"] {
        for threads in ["4", "64", "512"] {
            let own = std::env::current_exe().unwrap();
            Command::new(own).args(["memory", mode, threads]).status().unwrap();
        }
    }
}

fn write(text: &str) {
    let fd = atrace_marker_fd.load(Ordering::Relaxed);
    // libcutils has its buffer on the stack.
    let mut buffer = [0u8; 256];
    buffer[..text.len()].copy_from_slice(text.as_bytes());
    // SAFETY: that many bytes of the buffer.
    unsafe { libc::write(fd, buffer.as_ptr().cast(), text.len()) };
}

fn config(mode: Mode) -> Config {
    let mut config = Config { pass_on: PassOnSetting::Never, ..Config::default() };
    config.recorder.capacity_kb = 256 * 1024;
    config.recorder.mode = mode;
    config
}

const SECTIONS: [&str; 9] = [
    "Choreographer#doFrame",
    "input",
    "animation",
    "traversal",
    "measure",
    "layout",
    "draw",
    "binder transaction",
    "Lock contention on a monitor lock (owner tid: 4711)",
];

/// The records of `frames` frames: 20 each, nested as an app's are. `pause` as in life.
fn frames(
    frames: u32,
    pause: bool,
    mut begin: impl FnMut(usize, u32),
    mut end: impl FnMut(),
) -> u64 {
    let mut records = 0;
    for frame in 0..frames {
        for depth in [&[0][..], &[1], &[2], &[3, 4], &[5], &[6, 7], &[8]] {
            for &section in depth {
                begin(section, frame);
                if pause {
                    busy(200 + u64::from(frame.wrapping_mul(2_654_435_761) >> 22));
                }
                records += 1;
            }
            // The frame and its traversal stay open till their last part.
            for _ in 0..usize::from(depth[0] != 0 && depth[0] != 3) * depth.len() {
                end();
                records += 1;
            }
        }
        while records % 2 == 1 || records < u64::from(frame + 1) * 20 {
            end();
            records += 1;
        }
    }
    records
}

fn busy(ns: u64) {
    let start = Instant::now();
    while start.elapsed() < Duration::from_nanos(ns) {}
}

fn record_frames(count: u32, pause: bool) -> u64 {
    let pid = std::process::id();
    let begin = |section: usize, frame: u32| match section {
        0 => write(&format!("B|{pid}|{} {frame}", SECTIONS[0])),
        _ => write(&format!("B|{pid}|{}", SECTIONS[section])),
    };
    frames(count, pause, begin, || write(&format!("E|{pid}")))
}

/// Records a second and MB of text a second, from the recorder to a file.
fn drain(count: u32) {
    let directory = std::env::temp_dir();
    let (plain, packed) = (directory.join("drain.ftrace"), directory.join("drain.ftrace.zst"));
    tracetee::start(&config(Mode::Startup)).unwrap();
    let records = record_frames(count, false);
    tracetee::stop().unwrap();
    let median = |mut work: Box<dyn FnMut() + '_>| {
        let mut times: Vec<_> = (0..5)
            .map(|_| {
                let start = Instant::now();
                work();
                start.elapsed()
            })
            .collect();
        times.sort();
        times[2]
    };
    let to_text = median(Box::new(|| drop(tracetee::dump(&plain).unwrap())));
    let to_zstd = median(Box::new(|| drop(tracetee::dump(&packed).unwrap())));
    let text_bytes = std::fs::metadata(&plain).unwrap().len();
    let pid = std::process::id();
    // The same lines by format!, compressed with the same level as one stream.
    let naive = median(Box::new(|| {
        let mut text = String::new();
        let mut time = 1_000_000_000u64;
        let line = |text: &mut String, payload: String, time: u64| {
            let (seconds, micros) = (time / 1_000_000_000, time / 1000 % 1_000_000);
            text.push_str(&format!(
                "{:>16}-{pid:<7}({pid:>5}) [000] ...1 {seconds}.{micros:06}: tracing_mark_write: {payload}\n",
                "drain"
            ));
        };
        let out = std::cell::RefCell::new((&mut text, &mut time));
        frames(
            count,
            false,
            |section, frame| {
                let mut out = out.borrow_mut();
                *out.1 += 500;
                let time = *out.1;
                match section {
                    0 => line(out.0, format!("B|{pid}|{} {frame}", SECTIONS[0]), time),
                    _ => line(out.0, format!("B|{pid}|{}", SECTIONS[section]), time),
                }
            },
            || {
                let mut out = out.borrow_mut();
                *out.1 += 500;
                let time = *out.1;
                line(out.0, format!("E|{pid}"), time);
            },
        );
        std::fs::write(&packed, zstd::bulk::compress(text.as_bytes(), 3).unwrap()).unwrap();
    }));
    println!("drain of {records} records, {} MB of text", text_bytes / 1_000_000);
    let row = |name: &str, time: Duration| {
        println!(
            "  {name:<28} {:>6.2} M records/s {:>6.0} MB/s of text",
            records as f64 / time.as_secs_f64() / 1e6,
            text_bytes as f64 / time.as_secs_f64() / 1e6
        );
    };
    row("tracetee to text", to_text);
    row("tracetee to zstd frames", to_zstd);
    row("format! and zstd", naive);
    match trace_cmd(&directory, count) {
        Some((report, bytes, events)) => {
            let time = report.as_secs_f64();
            println!(
                "  {:<28} {:>6.2} M records/s {:>6.0} MB/s of text",
                "trace-cmd report",
                events as f64 / time / 1e6,
                bytes as f64 / time / 1e6
            );
        }
        None => println!("  skipped: trace-cmd report (root, tracefs, trace-cmd)"),
    }
    let _ = (std::fs::remove_file(plain), std::fs::remove_file(packed));
}

/// The same number of events through the kernel and `trace-cmd report`: time, bytes, lines.
fn trace_cmd(directory: &Path, count: u32) -> Option<(Duration, usize, usize)> {
    let marker = File::options().write(true).open("/sys/kernel/tracing/trace_marker").ok()?;
    let file = directory.join("drain.dat");
    let trace_cmd = |arguments: &[&str]| {
        let output = Command::new("trace-cmd").args(arguments).output().ok()?;
        output.status.success().then_some(output.stdout)
    };
    // By hand: `trace-cmd start` wants to set kernel.ftrace_enabled, which not every machine lets it.
    let set = |name: &str, text: &str| {
        std::fs::write(Path::new("/sys/kernel/tracing").join(name), text).ok()
    };
    set("tracing_on", "0")?;
    set("buffer_size_kb", "200000")?;
    set("trace", "")?;
    set("tracing_on", "1")?;
    let before = atrace_marker_fd.swap(marker.as_raw_fd(), Ordering::Relaxed);
    record_frames(count, false);
    atrace_marker_fd.store(before, Ordering::Relaxed);
    set("tracing_on", "0")?;
    trace_cmd(&["extract", "-o", file.to_str()?])?;
    let start = Instant::now();
    let report = trace_cmd(&["report", "-i", file.to_str()?])?;
    let time = start.elapsed();
    let _ = (set("trace", ""), set("buffer_size_kb", "64"), std::fs::remove_file(file));
    let events = report.iter().filter(|&&byte| byte == b'\n').count();
    Some((time, report.len(), events))
}

/// Bytes a record, compressed alike, of one capture that both record at once.
fn wire(count: u32) {
    let path = std::env::temp_dir().join("wire.ftrace.zst");
    let mut session = perfetto::session(64 * 1024);
    tracetee::start(&config(Mode::Startup)).unwrap();
    let pid = std::process::id();
    macro_rules! perfetto_begin {
        ($section:expr, $($index:literal => $name:literal),*) => {
            match $section {
                $($index => { track_event_begin!("bench", $name); })*
                _ => {}
            }
        };
    }
    let records = frames(
        count,
        true,
        |section, _| {
            write(&format!("B|{pid}|{}", SECTIONS[section]));
            perfetto_begin!(section,
                0 => "Choreographer#doFrame", 1 => "input", 2 => "animation", 3 => "traversal",
                4 => "measure", 5 => "layout", 6 => "draw", 7 => "binder transaction",
                8 => "Lock contention on a monitor lock (owner tid: 4711)");
        },
        || {
            write(&format!("E|{pid}"));
            track_event_end!("bench");
        },
    );
    tracetee::stop().unwrap();
    session.stop_blocking();
    let protobuf = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&protobuf);
    session.read_trace_blocking(move |data, _| sink.lock().unwrap().write_all(data).unwrap());
    let protobuf = std::mem::take(&mut *protobuf.lock().unwrap());
    let summary = tracetee::dump(&path).unwrap();
    assert_eq!(summary.recorded(), records);
    let compressed = zstd::bulk::compress(&protobuf, 3).unwrap().len();
    println!("on the wire, {records} records");
    let each = |bytes: f64| bytes / records as f64;
    println!(
        "  tracetee, text in zstd frames     {:>6.2} bytes a record",
        each(summary.file_bytes as f64)
    );
    println!("  tracetee, text                    {:>6.2}", each(summary.text_bytes as f64));
    println!("  Perfetto SDK, protobuf and zstd   {:>6.2}", each(compressed as f64));
    println!("  Perfetto SDK, protobuf            {:>6.2}", each(protobuf.len() as f64));
    let _ = std::fs::remove_file(path);
}

/// Resident memory over what it was before the capture, while `threads` threads have recorded.
fn print_memory(mode: &str, threads: usize) {
    let ready = Arc::new(Barrier::new(threads + 1));
    let go = Arc::new(Barrier::new(threads + 1));
    let done = Arc::new(Barrier::new(threads + 1));
    for _ in 0..threads {
        let (ready, go, done) = (Arc::clone(&ready), Arc::clone(&go), Arc::clone(&done));
        std::thread::spawn(move || {
            // Measures the thread's own cost first.
            ready.wait();
            go.wait();
            for number in 0..2_000_000 / threads {
                write(&format!("I|1|record number {number}"));
            }
            done.wait();
            done.wait();
        });
    }
    ready.wait();
    let mut config = config(if mode == "ring" { Mode::Ring } else { Mode::Startup });
    config.recorder.capacity_kb = 16 * 1024;
    let before = resident_kb();
    tracetee::start(&config).unwrap();
    let started = resident_kb();
    go.wait();
    done.wait();
    let after = resident_kb();
    println!(
        "memory, {mode}, {threads} threads, capacity 16384 kB: {} kB at the start, {} kB when full",
        started - before,
        after - before
    );
    std::process::exit(0);
}

fn resident_kb() -> i64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<i64>().unwrap() * 4
}
