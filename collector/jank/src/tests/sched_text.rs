//! Writes ftrace text with markers and scheduler events for tests, one event a call. Times in µs, threads by id.

use std::fmt::Write;
use tracetee_trace::{Trace, read};

/// The threads of the tests: the main thread, the render thread, a worker of the process, another process' binder
/// thread.
pub(crate) const MAIN: u32 = 100;
pub(crate) const RENDER: u32 = 107;
/// A thread that the render thread made and nobody named.
pub(crate) const UNNAMED: u32 = 108;
pub(crate) const WORKER: u32 = 123;
pub(crate) const PEER: u32 = 901;
/// Flutter's threads, of two engines.
pub(crate) const FLUTTER_UI: u32 = 130;
pub(crate) const FLUTTER_RASTER: u32 = 131;
pub(crate) const OTHER_UI: u32 = 132;
pub(crate) const OTHER_RASTER: u32 = 133;
/// SurfaceFlinger's main thread, and the one that hands out the vsyncs of apps.
pub(crate) const SURFACE_FLINGER: u32 = 500;
pub(crate) const SF_APP: u32 = 501;
/// The thread that did so before Android 9.
pub(crate) const SF_EVENTS: u32 = 502;
/// Threads of the kernel that handle interrupts of the graphics processor, and of a disk.
pub(crate) const GPU_IRQ: u32 = 60;
pub(crate) const DISK_IRQ: u32 = 61;

/// Text in the making.
#[derive(Debug, Clone, Default)]
pub(crate) struct Text {
    about: String,
    lines: Vec<(u64, String)>,
}

fn name(tid: u32) -> &'static str {
    match tid {
        0 => "<idle>",
        MAIN => "com.app",
        RENDER | UNNAMED => "RenderThread",
        WORKER => "worker",
        PEER => "Binder:900_1",
        FLUTTER_UI => "1.ui",
        FLUTTER_RASTER => "1.raster",
        OTHER_UI => "2.ui",
        OTHER_RASTER => "2.raster",
        SURFACE_FLINGER => "surfaceflinger",
        SF_APP => "app",
        SF_EVENTS => "EventThread",
        GPU_IRQ => "irq/214-host_sp",
        DISK_IRQ => "irq/215-ufs",
        _ => "other",
    }
}

const fn pid(tid: u32) -> u32 {
    match tid {
        0 => 0,
        PEER => 900,
        SURFACE_FLINGER | SF_APP | SF_EVENTS => SURFACE_FLINGER,
        _ => MAIN,
    }
}

impl Text {
    /// Begins a text whose capture says this.
    pub(crate) fn new(about: &str) -> Self {
        Self { about: about.to_owned(), lines: Vec::new() }
    }

    /// Adds an event of a thread; `flags` are those of ftrace.
    pub(crate) fn event(&mut self, tid: u32, cpu: u32, flags: &str, us: u64, event: &str) {
        let (s, fraction) = (us / 1_000_000, us % 1_000_000);
        let (name, pid) = (name(tid), pid(tid));
        let line =
            format!("{name:>16}-{tid} ({pid:>5}) [{cpu:03}] {flags} {s}.{fraction:06}: {event}\n");
        self.lines.push((us, line));
    }

    /// Adds a line of ftrace.
    pub(crate) fn raw(&mut self, us: u64, line: &str) {
        self.lines.push((us, format!(" {line}\n")));
    }

    /// Adds the details of the record that is added next.
    pub(crate) fn comment(&mut self, us: u64, details: &str) {
        self.lines.push((us, format!("#@ {details}\n")));
    }

    pub(crate) fn mark(&mut self, tid: u32, us: u64, payload: &str) {
        self.event(tid, 0, "...1", us, &format!("tracing_mark_write: {payload}"));
    }

    /// Adds a marker with details.
    pub(crate) fn detailed(&mut self, tid: u32, us: u64, details: &str, payload: &str) {
        self.lines.push((us, format!("#@ {details}\n")));
        self.mark(tid, us, payload);
    }

    /// Adds a slice.
    pub(crate) fn slice(&mut self, tid: u32, from_us: u64, to_us: u64, name: &str) {
        self.mark(tid, from_us, &format!("B|{}|{name}", pid(tid)));
        self.mark(tid, to_us, &format!("E|{}", pid(tid)));
    }

    /// A processor goes on from a thread, which is in this state then, to another one.
    pub(crate) fn switch(&mut self, us: u64, cpu: u32, prev: u32, state: &str, next: u32) {
        let (prev_name, next_name) = (name(prev), name(next));
        let event = format!(
            "sched_switch: prev_comm={prev_name} prev_pid={prev} prev_prio=120 prev_state={state} ==> \
             next_comm={next_name} next_pid={next} next_prio=120"
        );
        self.event(prev, cpu, "d..2", us, &event);
    }

    /// A thread wakes another one; thread 0 stands for an interrupt.
    pub(crate) fn wake(&mut self, us: u64, by: u32, tid: u32) {
        let flags = if by == 0 { "d.h2" } else { "d..2" };
        let event = format!("sched_waking: comm={} pid={tid} prio=120 target_cpu=000", name(tid));
        self.event(by, 0, flags, us, &event);
    }

    pub(crate) fn trace(&self) -> Trace {
        let mut lines: Vec<&(u64, String)> = self.lines.iter().collect();
        lines.sort_by_key(|(us, _)| *us);
        let mut text = format!("# tracer: nop\n# tracetee: {}\n", self.about);
        lines.into_iter().for_each(|(_, line)| {
            let _ = text.write_str(line);
        });
        read(text.as_bytes()).unwrap()
    }
}
