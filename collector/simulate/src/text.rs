//! The text of a simulated capture.

use super::PERIOD_NS;
use super::plan::Plant;
use fastrand::Rng;
use std::fmt::Write;
use tracetee_protocol::{CaptureMeta, notes};

/// Threads as lines name them.
const MAIN: &str = "            main-4000   ";
const WORKER: &str = "          worker-4011   ";
const IDLE: &str = "          <idle>-0      ";
/// Time before a vsync at which a message before the frame begins: the main thread has ended the previous frame by then.
const LEAD_US: u64 = 200;

/// Times at which a frame began on the main thread, and was complete, µs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Drawn {
    pub(super) begin: u64,
    /// End of the main thread's part.
    pub(super) ui_end: u64,
    pub(super) end: u64,
}

/// Lines of a capture, of two threads whose times interleave.
pub(super) struct Text {
    lines: Vec<(u64, String)>,
    head: String,
    /// True from the first wait on: the scheduler's events of the main thread are in the capture.
    has_states: bool,
    /// Percent of the times of a usual device.
    slowness: u64,
}

impl Text {
    pub(super) fn new(about: &CaptureMeta, slowness: u64) -> Self {
        let head = format!("{}{}{}\n", notes::HEADER, notes::COMMENT, about.to_json());
        Self { lines: Vec::new(), head, has_states: false, slowness }
    }

    /// Draws the time of work on this device, µs: of a usual one, from `least` to less than `least + more`.
    pub(super) fn work_us(&self, rng: &mut Rng, least: u64, more: u64) -> u64 {
        (least + rng.u64(0..more)) * self.slowness / 100
    }

    pub(super) fn line(&mut self, thread: &str, at: u64, payload: &str) {
        self.event(thread, at, &format!("tracing_mark_write: {payload}"));
    }

    fn event(&mut self, thread: &str, at: u64, event: &str) {
        let (s, us) = (at / 1_000_000, at % 1_000_000);
        // Interrupts occur on an idle processor.
        let flags = if thread == IDLE { "d.h1" } else { "...1" };
        let pid = if thread == IDLE { "-----" } else { " 4000" };
        self.lines.push((at, format!("{thread}({pid}) [000] {flags} {s}.{us:06}: {event}\n")));
    }

    pub(super) fn main(&mut self, at: u64, payload: &str) {
        self.line(MAIN, at, payload);
    }

    fn render(&mut self, at: u64, payload: &str) {
        self.line("    RenderThread-4007   ", at, payload);
    }

    /// Writes a frame that is due at `from`. Returns when it began, and its end.
    pub(super) fn frame(
        &mut self,
        rng: &mut Rng,
        from: u64,
        vsync: u64,
        planted: &[(&str, Plant, u64)],
        slow_us: u64,
    ) -> Drawn {
        let mut at = from;
        self.has_states |=
            planted.iter().any(|(_, plant, _)| !matches!(plant, Plant::Work | Plant::Before));
        let before = planted.iter().find(|(_, plant, _)| *plant == Plant::Before);
        self.runs(if before.is_some() { from - LEAD_US } else { from });
        if let Some((slice, _, us)) = before {
            self.main(from - LEAD_US, &format!("B|4000|{slice}"));
            at += us;
            self.main(at, "E|4000");
        }
        let begin = at;
        self.main(at, &format!("B|4000|Choreographer#doFrame {vsync}"));
        for (name, least) in [("input", 60), ("animation", 300)] {
            self.main(at, &format!("B|4000|{name}"));
            at += self.work_us(rng, least, least);
            self.main(at, "E|4000");
        }
        self.main(at, "B|4000|traversal");
        at += slow_us;
        for &(slice, plant, us) in planted.iter().filter(|(_, plant, _)| *plant != Plant::Before) {
            self.main(at, &format!("B|4000|{slice}"));
            self.wait(plant, at, at + us);
            at += us;
            self.main(at, "E|4000");
        }
        for (name, least) in [("measure", 400), ("layout", 300), ("draw", 600)] {
            self.main(at, &format!("B|4000|{name}"));
            at += self.work_us(rng, least, least);
            self.main(at, "E|4000");
        }
        self.render(at - 100, &format!("B|4000|DrawFrames {vsync}"));
        self.main(at, "E|4000");
        self.main(at, "E|4000");
        self.stops(at, "S");
        let ui_end = at;
        self.render(at, "B|4000|flush commands");
        // The same on each device: a main thread that is busy until shortly before a vsync would delay the next frame.
        at += 500 + rng.u64(0..600);
        self.render(at, "E|4000");
        at += 50;
        self.render(at, "E|4000");
        Drawn { begin, ui_end, end: at }
    }

    /// Writes the FrameMetrics verdict on the frame of a vsync, as the Android library does.
    pub(super) fn metrics(&mut self, at: u64, vsync: u64, total_ns: u64) {
        let frame = format!(
            "vsync={vsync} intended_ns={} allowed_ns={PERIOD_NS} total_ns={total_ns}",
            at * 1000
        );
        let details = format!(
            r#"{}{{"args":{{"source":"frame_metrics","frame":"{frame}"}},"cat":"{}"}}"#,
            notes::DETAILS,
            notes::FRAME_CATEGORY
        );
        self.lines.push((at, details + "\n"));
        self.main(at, &format!("I|4000|{}", notes::FRAME_VERDICT));
    }

    /// Writes the scheduler's events of the main thread, which ran before and runs after.
    fn wait(&mut self, plant: Plant, from: u64, to: u64) {
        let (state, waker) = match plant {
            Plant::Work | Plant::Before => return,
            Plant::Sleep => ("S", IDLE),
            Plant::Wait => ("S", WORKER),
            Plant::Disk => ("D", IDLE),
            Plant::Processor => ("R+", IDLE),
        };
        self.stops(from, state);
        if plant != Plant::Processor {
            let wake = "sched_waking: comm=main pid=4000 prio=120 target_cpu=000";
            self.event(waker, to, wake);
        }
        if plant == Plant::Disk {
            let reason = "sched_blocked_reason: pid=4000 iowait=1 caller=io_schedule+0x10/0x40";
            self.event(waker, to, reason);
        }
        self.runs(to);
    }

    /// The main thread begins to run.
    fn runs(&mut self, at: u64) {
        self.switch(IDLE, at, ["swapper/0 prev_pid=0", "R", "main next_pid=4000"]);
    }

    /// The main thread stops running.
    fn stops(&mut self, at: u64, state: &str) {
        self.switch(MAIN, at, ["main prev_pid=4000", state, "swapper/0 next_pid=0"]);
    }

    fn switch(&mut self, thread: &str, at: u64, [prev, state, next]: [&str; 3]) {
        if self.has_states {
            let event = format!(
                "sched_switch: prev_comm={prev} prev_prio=120 prev_state={state} ==> next_comm={next} next_prio=120"
            );
            self.event(thread, at, &event);
        }
    }

    pub(super) fn finish(mut self) -> String {
        self.lines.sort_by_key(|&(at, _)| at);
        let mut text = self.head;
        for (_, line) in &self.lines {
            let _ = text.write_str(line);
        }
        text
    }
}
