//! The text of a simulated capture.

use fastrand::Rng;
use std::fmt::Write;
use tracetee_protocol::{CaptureMeta, notes};

/// Lines of a capture, of two threads whose times interleave.
pub(super) struct Text {
    lines: Vec<(u64, String)>,
    head: String,
}

impl Text {
    pub(super) fn new(about: &CaptureMeta) -> Self {
        let head = format!("{}{}{}\n", notes::HEADER, notes::COMMENT, about.to_json());
        Self { lines: Vec::new(), head }
    }

    fn line(&mut self, thread: &str, at: u64, payload: &str) {
        let (s, us) = (at / 1_000_000, at % 1_000_000);
        let line =
            format!("{thread}( 4000) [000] ...1 {s}.{us:06}: tracing_mark_write: {payload}\n");
        self.lines.push((at, line));
    }

    pub(super) fn main(&mut self, at: u64, payload: &str) {
        self.line("            main-4000   ", at, payload);
    }

    fn render(&mut self, at: u64, payload: &str) {
        self.line("    RenderThread-4007   ", at, payload);
    }

    /// Writes a frame that begins at `from`. Returns its end.
    pub(super) fn frame(
        &mut self,
        rng: &mut Rng,
        from: u64,
        vsync: u64,
        planted: Option<(&str, u64)>,
        slow_us: u64,
    ) -> u64 {
        let mut at = from;
        self.main(at, &format!("B|4000|Choreographer#doFrame {vsync}"));
        for (name, least) in [("input", 60), ("animation", 300)] {
            self.main(at, &format!("B|4000|{name}"));
            at += least + rng.u64(0..least);
            self.main(at, "E|4000");
        }
        self.main(at, "B|4000|traversal");
        at += slow_us;
        if let Some((slice, us)) = planted {
            self.main(at, &format!("B|4000|{slice}"));
            at += us;
            self.main(at, "E|4000");
        }
        for (name, least) in [("measure", 400), ("layout", 300), ("draw", 600)] {
            self.main(at, &format!("B|4000|{name}"));
            at += least + rng.u64(0..least);
            self.main(at, "E|4000");
        }
        self.render(at - 100, &format!("B|4000|DrawFrames {vsync}"));
        self.main(at, "E|4000");
        self.main(at, "E|4000");
        self.render(at, "B|4000|flush commands");
        at += 500 + rng.u64(0..600);
        self.render(at, "E|4000");
        at += 50;
        self.render(at, "E|4000");
        at
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
