//! The timeline's page of a trace that is analyzed: its frames, and why the late ones are late.

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;
use std::fs::File;
use std::io::{self, BufRead, Cursor, Read, Write};
use std::path::Path;
use std::sync::Arc;
use tracetee_convert::{About, Format, Frame, Kernel, text_passthrough};
use tracetee_jank::{Analysis, FrameExplanation};
use tracetee_trace::{Error, Kind, Mapping, Trace};

/// Limit of a page in memory.
const MAX_PAGE_BYTES: u64 = 256 << 20;

/// Writes the page of a trace, which `open` opens (several times): of a text as that text is, of others as text is made
/// of them.
///
/// # Errors
/// Errors of the trace's source or of `out`.
pub fn write<R: BufRead>(
    open: impl Fn() -> Result<R, Error>,
    title: &str,
    trace: &Trace,
    analysis: &Analysis,
    out: &mut impl Write,
) -> Result<(), Error> {
    let kind = Kind::sniff(&mut open()?)?;
    tracetee_convert::html(trace, &about(title, Some(analysis)), out, |mut out| match kind {
        Kind::Text => text_passthrough(open, &[], out).map(drop),
        _ => Ok(tracetee_convert::write_with(
            trace,
            &mut Kernel::default(),
            Format::Ftrace,
            &mut out,
        )
        .map(drop)?),
    })
}

/// Returns the page; one of more than 256 MB is an error.
///
/// # Errors
/// As [`write()`], and a page that is too large.
pub fn page<R: BufRead>(
    open: impl Fn() -> Result<R, Error>,
    title: &str,
    trace: &Trace,
    analysis: &Analysis,
) -> Result<Vec<u8>, Error> {
    let mut page = Limited { out: Vec::new(), left: MAX_PAGE_BYTES };
    write(open, title, trace, analysis, &mut page)?;
    Ok(page.out)
}

/// Returns the page of a trace in a file as gzip, for pages that carry it to a browser. `mapping` restores the names, in
/// `trace` too.
///
/// # Errors
/// As [`page()`].
pub fn compressed(
    path: &Path,
    title: &str,
    trace: &mut Trace,
    analysis: &Analysis,
    mapping: Option<&Mapping>,
) -> Result<Vec<u8>, Error> {
    let of_file = |error| Error::File(path.to_owned(), Box::new(error));
    let mut restored = None;
    if let Some(mapping) = mapping {
        mapping.apply_to(trace);
        restored = with_names(path, mapping).map_err(of_file)?.map(Arc::<[u8]>::from);
    }
    let open = || match &restored {
        Some(text) => tracetee_trace::open(Source::Memory(Cursor::new(Arc::clone(text)))),
        None => tracetee_trace::open(Source::File(File::open(path)?)),
    };
    let out = GzEncoder::new(Vec::new(), Compression::default());
    let mut page = Limited { out, left: MAX_PAGE_BYTES };
    write(open, title, trace, analysis, &mut page).map_err(of_file)?;
    Ok(page.out.finish()?)
}

/// Returns a text with its names restored, as gzip; `None` of a trace that is no text.
fn with_names(path: &Path, mapping: &Mapping) -> Result<Option<Vec<u8>>, Error> {
    let mut text = tracetee_trace::open(File::open(path)?)?;
    if Kind::sniff(&mut text)? != Kind::Text {
        return Ok(None);
    }
    let out = GzEncoder::new(Vec::new(), Compression::fast());
    let mut out = Limited { out, left: MAX_PAGE_BYTES };
    mapping.apply_to_text(text, &mut out)?;
    Ok(Some(out.out.finish()?))
}

/// The text of a timeline: the trace's own, or one with restored names.
enum Source {
    File(File),
    Memory(Cursor<Arc<[u8]>>),
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(buffer),
            Self::Memory(text) => text.read(buffer),
        }
    }
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
    About { title, pid: analysis.map(|analysis| analysis.process.pid), frames }
}

fn frames(analysis: &Analysis) -> Vec<Frame> {
    // Explanations are in the order of their frames.
    let explanation = |place: usize| {
        let of = &analysis.explanations;
        let found = of.binary_search_by_key(&place, |explanation| explanation.frame).ok()?;
        json(of.get(found)?).ok()
    };
    let frames = analysis.frames.iter().enumerate();
    let frames = frames.filter(|(_, frame)| frame.pipeline.is_rated());
    let frames = frames.map(|(place, frame)| Frame {
        pipeline: frame.pipeline.name(),
        start_ns: frame.start_ns,
        dur_ns: frame.dur_ns,
        deadline_ns: frame.deadline_ns.saturating_sub(frame.start_ns),
        level: frame.level as usize,
        is_janky: frame.janky,
        is_slow: frame.slow,
        dropped: frame.dropped,
        explanation: explanation(place),
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
    use tracetee_jank::{Options, analyze};

    fn page_of(path: &Path, mapping: Option<&Mapping>) -> String {
        let mut trace = tracetee_trace::read_file(path).unwrap();
        let analysis = analyze(&trace, &Options { mapping, ..Options::default() }).unwrap();
        let page = compressed(path, "a", &mut trace, &analysis, mapping).unwrap();
        let mut text = String::new();
        flate2::read::GzDecoder::new(&*page).read_to_string(&mut text).unwrap();
        text
    }

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
        let kernel = &mut Kernel::default();
        tracetee_convert::write_with(&trace, kernel, Format::Perfetto, &mut file).unwrap();
        let r8 = "com.example.Feed -> a.b:\n    void load() -> c\n";
        let mapping = Mapping::read(r8.as_bytes()).unwrap();
        for path in [&of_text, &of_packets] {
            assert!(page_of(path, None).contains("B|7|a.b.c\n"), "{path:?}");
            let page = page_of(path, Some(&mapping));
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
        for (frame, of) in about.frames.iter().zip(&analysis.frames) {
            assert_eq!(
                (frame.start_ns, frame.deadline_ns),
                (of.start_ns, of.deadline_ns - of.start_ns)
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
