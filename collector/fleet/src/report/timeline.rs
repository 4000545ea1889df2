//! The timeline's page of a trace that is analyzed: its frames, and why the late ones are late.

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;
use std::io::{self, BufWriter, Write};
use tracetee_convert::{About, Frame};
use tracetee_jank::{Analysis, FrameExplanation, Named};
use tracetee_trace::Trace;

/// Limit of a page in memory.
const MAX_PAGE_BYTES: u64 = 256 << 20;

/// Writes the page of a trace.
///
/// # Errors
/// Errors of `out`.
pub fn write(
    title: &str,
    trace: &Trace,
    analysis: &Analysis,
    out: &mut impl Write,
) -> io::Result<()> {
    tracetee_convert::html(trace, &about(title, Some(analysis)), out).map(drop)
}

/// Returns the page; one of more than 256 MB is an error.
///
/// # Errors
/// A page that is too large.
pub fn page(title: &str, trace: &Trace, analysis: &Analysis) -> io::Result<Vec<u8>> {
    let mut page = Limited { out: Vec::new(), left: MAX_PAGE_BYTES };
    write(title, trace, analysis, &mut page)?;
    Ok(page.out)
}

/// Returns the page as gzip, for pages that carry it to a browser.
///
/// # Errors
/// As [`page()`].
pub fn compressed(title: &str, trace: &Trace, analysis: &Analysis) -> io::Result<Vec<u8>> {
    // Each write to an encoder clears its buffer, and numbers are written one by one.
    let out = GzEncoder::new(Vec::new(), Compression::default());
    let out = BufWriter::with_capacity(1 << 16, out);
    let mut page = Limited { out, left: MAX_PAGE_BYTES };
    write(title, trace, analysis, &mut page)?;
    page.out.into_inner().map_err(io::IntoInnerError::into_error)?.finish()
}

/// A writer that fails after so many bytes.
struct Limited<W> {
    out: W,
    left: u64,
}

impl<W: Write> Write for Limited<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let size = bytes.len() as u64;
        let Some(left) = self.left.checked_sub(size) else {
            let limit = MAX_PAGE_BYTES >> 20;
            return Err(io::Error::other(format!(
                "the timeline exceeds {limit} MB; `tracetee convert CAPTURE -o timeline.html` writes it to a file"
            )));
        };
        self.left = left;
        self.out.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Returns the page's data of an analysis; the page has no frames if the analysis failed.
#[must_use]
pub fn about<'a>(title: &'a str, analysis: Option<&Analysis>) -> About<'a> {
    let frames = analysis.map(frames).unwrap_or_default();
    let death = analysis.and_then(|analysis| analysis.death.as_ref());
    let about = death.map(|death| death.sentence.clone()).unwrap_or_default();
    About { title, pid: analysis.map(|analysis| analysis.process.pid), frames, about }
}

fn frames(analysis: &Analysis) -> Vec<Frame> {
    // Explanations are in the order of their frames.
    let explanation = |index: usize| {
        let all = &analysis.explanations;
        let found = all.binary_search_by_key(&index, |explanation| explanation.frame).ok()?;
        json(all.get(found)?).ok()
    };
    let frames = analysis.frames.iter().enumerate();
    let frames = frames.filter(|(_, frame)| frame.pipeline.is_rated());
    let frames = frames.map(|(index, frame)| Frame {
        pipeline: frame.pipeline.name(),
        start_ns: frame.start_ns,
        dur_ns: frame.dur_ns,
        deadline_ns: frame.deadline_ns.saturating_sub(frame.start_ns),
        level: frame.level as usize,
        is_janky: frame.janky,
        is_slow: frame.slow,
        dropped: frame.dropped,
        explanation: explanation(index),
    });
    frames.collect()
}

/// An explanation as JSON, its times since the begin of its frame: JavaScript's numbers do not hold the ns of a clock.
///
/// # Errors
/// None that a user can cause: all its types are JSON's.
fn json(explanation: &FrameExplanation) -> Result<Value, serde_json::Error> {
    serde_json::to_value(explanation.since_start())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::{Capture, read_file_for_timeline};
    use std::fs::File;
    use std::io::Read;
    use tracetee_convert::Format;
    use tracetee_jank::{Options, analyze};
    use tracetee_trace::Mapping;

    #[test]
    fn a_mapping_restores_the_names_in_the_page_of_a_text_and_of_another_format() {
        let mut text = "# tracer: nop\n".to_owned();
        for (us, payload) in
            [(0, "B|7|Choreographer#doFrame"), (1, "B|7|a.b.c"), (50_000, "E|7"), (50_001, "E|7")]
        {
            text.push_str(&format!(
                "app-7 (7) [000] ...1 3.{us:06}: tracing_mark_write: {payload}\n"
            ));
        }
        let directory = tempfile::tempdir().unwrap();
        let of_text = directory.path().join("a.ftrace");
        std::fs::write(&of_text, text).unwrap();
        let of_packets = directory.path().join("a.pftrace");
        let trace = tracetee_trace::read_file(&of_text).unwrap();
        let mut file = File::create(&of_packets).unwrap();
        tracetee_convert::write(&trace, Format::Perfetto, &mut file).unwrap();
        let r8 = "com.example.Feed -> a.b:\n    void load() -> c\n";
        let mapping = Mapping::read(r8.as_bytes()).unwrap();
        for path in [&of_text, &of_packets] {
            let page_of = |mapping| {
                let options = Options { mapping, ..Options::default() };
                let Capture { trace, analysis } = read_file_for_timeline(path, &options).unwrap();
                let packed = compressed("a", &trace, &analysis).unwrap();
                let mut text = String::new();
                flate2::read::GzDecoder::new(&*packed).read_to_string(&mut text).unwrap();
                text
            };
            assert!(page_of(None).contains("B|7|a.b.c\n"), "{path:?}");
            let page = page_of(Some(&mapping));
            assert!(page.contains("B|7|com.example.Feed.load\n"), "{path:?}");
            assert!(!page.contains("a.b.c"), "{path:?}");
        }
    }

    #[test]
    fn explanations_are_of_their_frames_with_times_since_the_frames_begin() {
        // A frame of 10 ms, one of 50, one of 10, one of 60.
        let mut text = "# tracer: nop\n".to_owned();
        for (number, took) in [10_000, 50_000, 10_000, 60_000].into_iter().enumerate() {
            let begin = 3_000_000 + number * 100_000;
            for (us, payload) in [
                (begin, "B|7|Choreographer#doFrame"),
                (begin, "B|7|work"),
                (begin + took, "E|7"),
                (begin + took, "E|7"),
            ] {
                let (seconds, us) = (us / 1_000_000, us % 1_000_000);
                text.push_str(&format!(
                    "app-7 (7) [000] ...1 {seconds}.{us:06}: tracing_mark_write: {payload}\n"
                ));
            }
        }
        let trace = tracetee_trace::read(text.as_bytes()).unwrap();
        let analysis = analyze(&trace, &Options::default()).unwrap();
        let about = about("a", Some(&analysis));
        assert_eq!(about.pid, Some(7));
        let explained: Vec<_> =
            about.frames.iter().map(|frame| frame.explanation.is_some()).collect();
        assert_eq!(explained, [false, true, false, true]);
        for (frame, analyzed) in about.frames.iter().zip(&analysis.frames) {
            assert_eq!(
                (frame.start_ns, frame.deadline_ns),
                (analyzed.start_ns, analyzed.deadline_ns - analyzed.start_ns)
            );
            let Some(explanation) = &frame.explanation else { continue };
            assert_eq!(explanation["start_ns"], 0);
            assert_eq!(explanation["end_ns"], frame.dur_ns);
            let path = explanation["path"].as_array().unwrap();
            assert_eq!(path[0]["from_ns"], 0);
            assert_eq!(path.last().unwrap()["to_ns"], frame.dur_ns);
        }
    }
}
