//! One page with a trace and the program that shows it: opens offline in any browser, and in Perfetto and catapult,
//! which read the text in it. The program itself reads the trace as columns ([`columns`]).

mod binder;
mod columns;
mod samples;

use crate::details::Fractions;
use crate::line::without;
use crate::lossiness::Dropped;
use crate::profile::escaped;
use crate::text;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::LazyLock;
use tracetee_trace::Trace;

const PAGE: &str = include_str!("../../web/timeline.html");
const CSS: &str = include_str!("../../web/timeline.css");
/// The page's script without comments and needless spaces: servers allow it by its hash.
pub static PAGE_SCRIPT: LazyLock<String> = LazyLock::new(|| {
    minifier::js::minify(SCRIPT).map_or_else(|_| SCRIPT.to_owned(), |script| script.to_string())
});
/// The parts of the script, in the order in which they use one another.
const SCRIPT: &str = concat!(
    "\"use strict\";\n(() => {\n",
    include_str!("../../web/timeline/columns.js"),
    include_str!("../../web/timeline/rows.js"),
    include_str!("../../web/timeline/draw.js"),
    include_str!("../../web/timeline/layer.js"),
    include_str!("../../web/timeline/tracks.js"),
    include_str!("../../web/timeline/frames.js"),
    include_str!("../../web/timeline/move.js"),
    include_str!("../../web/timeline/keys.js"),
    include_str!("../../web/timeline/places.js"),
    include_str!("../../web/timeline/select.js"),
    include_str!("../../web/timeline/search.js"),
    include_str!("../../web/timeline/link.js"),
    include_str!("../../web/timeline/stats.js"),
    include_str!("../../web/timeline/stacks.js"),
    include_str!("../../web/timeline/panel.js"),
    include_str!("../../web/timeline/compare.js"),
    include_str!("../../web/timeline/save.js"),
    include_str!("../../web/timeline/start.js"),
    "})();\n"
);

/// Data of the page besides the trace.
#[derive(Debug, Default, Clone)]
pub struct About<'a> {
    /// The page's title.
    pub title: &'a str,
    /// The app's process, which is shown first.
    pub pid: Option<u32>,
    /// Frames of the app.
    pub frames: Vec<Frame>,
    /// Sentence about the trace in the page's header, or empty.
    pub about: String,
}

/// A frame of the page.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// Name of the pipeline that made it.
    pub pipeline: &'static str,
    /// Begin, ns of the trace's clock.
    pub start_ns: u64,
    /// Duration.
    pub dur_ns: u64,
    /// Time from the begin to the deadline, ns.
    pub deadline_ns: u64,
    /// Level of jank, from 0.
    pub level: usize,
    /// True if the frame is janky.
    pub is_janky: bool,
    /// True if the frame is complete after its deadline.
    pub is_slow: bool,
    /// Missed vsyncs.
    pub dropped: u64,
    /// Explanation of a late frame, its times since the frame's begin: `FrameExplanation` of the analysis as JSON.
    pub explanation: Option<Value>,
}

/// Writes the page.
pub(crate) fn write(
    trace: &Trace,
    about: &About<'_>,
    out: &mut impl Write,
    dropped: &mut Dropped,
) -> io::Result<()> {
    let title = escaped(about.title);
    // A name may have the mark of another field of the page, which must not be replaced.
    let shown = escaped(&about.about).replace("{{", "{ {");
    let shown = if shown.is_empty() { shown } else { format!("<p id=\"about\">{shown}</p>") };
    let page =
        PAGE.replace("{{ABOUT}}", &shown).replace("{{TITLE}}", &title).replace("{{CSS}}", CSS);
    let (head, rest) = page.split_once("{{DATA}}").unwrap_or((&page, ""));
    let (script, tail) = rest.split_once("{{TEXT}}").unwrap_or((rest, ""));
    out.write_all(head.as_bytes())?;
    writeln!(
        out,
        "<script id=\"tracetee-data\" type=\"application/json\">{}</script>",
        data(about)
    )?;
    out.write_all(b"<script id=\"tracetee-columns\" type=\"text/plain\">\n")?;
    columns::write(trace, about.pid, out)?;
    out.write_all(b"</script>")?;
    // Before the text, which is many times longer, so that the browser need not read it first.
    out.write_all(script.replace("{{JS}}", &PAGE_SCRIPT).as_bytes())?;
    section(out, |out| process_dump(trace, out))?;
    section(out, |mut out| text::write(trace, Fractions::Kept, &mut out, dropped))?;
    out.write_all(tail.as_bytes())
}

fn data(about: &About<'_>) -> String {
    let frames: Vec<Value> = about
        .frames
        .iter()
        .map(|frame| {
            // Seconds separately: ns since boot have more digits than JavaScript's numbers.
            serde_json::json!({
                "start_s": frame.start_ns / 1_000_000_000,
                "start_ns": frame.start_ns % 1_000_000_000,
                "dur_ns": frame.dur_ns,
                "deadline_ns": frame.deadline_ns,
                "pipeline": frame.pipeline,
                "level": frame.level,
                "janky": frame.is_janky,
                "slow": frame.is_slow,
                "dropped": frame.dropped,
                "why": frame.explanation,
            })
        })
        .collect();
    let data = serde_json::json!({"pid": about.pid, "frames": frames}).to_string();
    data.replace('<', "\\u003c")
}

/// A section of data as systrace writes it: the tag on its own line, two spaces before it.
fn section(
    out: &mut impl Write,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    out.write_all(b"  <script class=\"trace-data\" type=\"application/text\">\n")?;
    let mut inner = InScript { out, held: Vec::new() };
    write(&mut inner)?;
    inner.finish()?;
    out.write_all(b"  </script>\n")
}

/// The tables of processes and threads, as `ps` prints them for systrace.
fn process_dump(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    let one_line = |text: &str| text.replace(['\n', '\r'], " ");
    writeln!(out, "PROCESS DUMP")?;
    writeln!(
        out,
        "USER           PID  PPID     VSZ    RSS WCHAN  PC S NAME                        COMM"
    )?;
    for (pid, name, _) in
        columns::processes(trace).into_iter().filter(|(_, name, _)| !name.is_empty())
    {
        // A column: no spaces.
        let name = one_line(name).replace(' ', "_");
        writeln!(out, "app      {pid:9}     0       0      0 0      0 S {name:<27} {name}")?;
    }
    writeln!(out, "USER           PID   TID CMD")?;
    let mut named: BTreeMap<u32, (u32, &str)> = BTreeMap::new();
    for (&tid, &(pid, name)) in &trace.dumped {
        named.insert(tid, (pid, trace.names.text(name)));
    }
    for (key, thread) in &trace.threads {
        let name = thread.name(&trace.names);
        if let (Some(pid), true, false) = (thread.pid, *key == thread.tid, name.is_empty()) {
            named.insert(thread.tid, (pid, name));
        }
    }
    for (tid, (pid, name)) in named {
        writeln!(out, "app      {pid:9} {tid:5} {}", one_line(name))?;
    }
    Ok(())
}

/// Text in a script element: a space splits sequences that would end the element, or begin a comment in it.
struct InScript<'a, W> {
    out: &'a mut W,
    /// The beginning of a line.
    held: Vec<u8>,
}

const ENDS: [&[u8]; 3] = [b"</script", b"<script", b"<!--"];

impl<W: Write> InScript<'_, W> {
    fn finish(self) -> io::Result<()> {
        self.out.write_all(&without(&self.held, &ENDS))
    }
}

impl<W: Write> Write for InScript<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let end = memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1);
        let (lines, rest) = bytes.split_at_checked(end).unwrap_or_default();
        self.held.extend_from_slice(lines);
        if end > 0 {
            self.out.write_all(&without(&self.held, &ENDS))?;
            self.held.clear();
        }
        self.held.extend_from_slice(rest);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of a page without a trace.
    const MAX_EMPTY_PAGE: usize = 120_000;

    #[test]
    fn a_page_without_a_trace_has_120_kb() {
        let mut page = Vec::new();
        write(&Trace::default(), &About::default(), &mut page, &mut Dropped::default()).unwrap();
        assert!(page.len() <= MAX_EMPTY_PAGE, "{} bytes", page.len());
    }

    #[test]
    fn nothing_ends_the_script_or_hides_its_end() {
        for text in [
            "plain",
            "a </script> b",
            "</SCRIPT",
            "<<script><!--<!-",
            "<",
            "</scrip </script",
            "a<b<!--",
        ] {
            // However it comes.
            for size in 1..=text.len() {
                let mut out = Vec::new();
                let mut inner = InScript { out: &mut out, held: Vec::new() };
                for part in text.as_bytes().chunks(size) {
                    inner.write_all(part).unwrap();
                }
                inner.finish().unwrap();
                let written = String::from_utf8(out).unwrap();
                let lower = written.to_lowercase();
                for end in ["</script", "<script", "<!--"] {
                    assert!(!lower.contains(end), "{text} {size}: {written}");
                }
                let bare = |text: &str| text.replace(' ', "");
                assert_eq!(bare(&written), bare(text), "{text} {size}");
            }
        }
    }
}
