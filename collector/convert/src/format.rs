//! The table of formats: name, file endings, reader, writer, and what the format cannot represent. The library writes with
//! it, the program gets `--to` and its inference from it, and docs/reference/FORMATS.md is generated from it.

use crate::details::Fractions;
use crate::lossiness::{Content, Dropped};
use crate::{json, method_trace, page, perfetto, pprof, text};
use std::io::{self, Write};
use strum::VariantArray;
use tracetee_trace::{EventText, Kind, Trace};

use Content::{
    AsyncSlices, Buffers, CpuTimes, EarlierNames, Frames, Header, KernelEvents, Packages,
    ProcessNames, Samples, Slices, ThreadCounters, ThreadStates, Units,
};

/// A row of the table.
pub(crate) struct Row {
    name: &'static str,
    about: &'static str,
    endings: &'static [&'static str],
    reader: Option<Kind>,
    lacks: fn(Content) -> bool,
    writer: fn(&Trace, &mut dyn Write, &mut Dropped) -> io::Result<()>,
}

macro_rules! formats {
    ($(#[doc = $about:literal] $format:ident {
        name: $name:literal,
        endings: $endings:expr,
        reader: $reader:expr,
        lacks: $lacks:expr,
        writer: $writer:expr,
    })+) => {
        /// A format that traces are written in.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Format {
            $(#[doc = $about] $format,)+
        }

        impl Format {
            /// All formats.
            pub const ALL: &[Self] = &[$(Self::$format),+];

            const fn row(self) -> &'static Row {
                match self {
                    $(Self::$format => &Row {
                        name: $name,
                        about: $about,
                        endings: &$endings,
                        reader: $reader,
                        lacks: $lacks,
                        writer: $writer,
                    },)+
                }
            }
        }
    };
}

/// Content that ftrace text cannot represent. (Thread states are in the kernel's events.)
const fn not_in_text(content: Content) -> bool {
    matches!(content, ProcessNames | Frames | Buffers | Samples | Units | ThreadCounters | Packages)
}

/// Content that Chrome's JSON cannot represent.
const fn not_in_json(content: Content) -> bool {
    matches!(content, ThreadStates | EarlierNames | KernelEvents)
        || (not_in_text(content) && !matches!(content, ProcessNames))
}

/// Everything but wall time of slices.
const fn all_but_wall_time(content: Content) -> bool {
    !matches!(content, Slices | ThreadCounters)
}

/// Everything but the stacks of slices and samples, with their wall time.
const fn all_but_stacks(content: Content) -> bool {
    all_but_wall_time(content) && !matches!(content, Samples | ProcessNames)
}

formats! {
    /// Ftrace text, for Perfetto, catapult and systrace.
    Ftrace {
        name: "ftrace",
        endings: [".ftrace", ".systrace", ".txt"],
        reader: Some(Kind::Text),
        lacks: not_in_text,
        writer: |trace, mut out, dropped| {
            text::write(trace, Fractions::Rounded, &mut out, dropped)
        },
    }
    /// Ftrace text as atrace prints it.
    Atrace {
        name: "atrace",
        endings: [".atrace"],
        reader: Some(Kind::Text),
        lacks: not_in_text,
        writer: |trace, mut out, dropped| {
            out.write_all(b"TRACE:\n")?;
            text::write(trace, Fractions::Rounded, &mut out, dropped)
        },
    }
    /// One page that shows the trace in any browser.
    Html {
        name: "html",
        endings: [".html"],
        reader: Some(Kind::Text),
        lacks: |content| matches!(content, Buffers | Samples | Packages),
        writer: |trace, mut out, dropped| {
            page::write(trace, &page::About::default(), &mut out, dropped)
        },
    }
    /// Perfetto's protobuf.
    Perfetto {
        name: "perfetto",
        endings: [".perfetto-trace", ".pftrace", ".perfetto"],
        reader: Some(Kind::Perfetto),
        lacks: |content| matches!(content, EarlierNames | Header),
        writer: |trace, mut out, dropped| perfetto::write(trace, None, &mut out, dropped),
    }
    /// Chrome's JSON, for speedscope and the Firefox Profiler too.
    Chrome {
        name: "chrome",
        endings: [".json"],
        reader: Some(Kind::Json),
        lacks: not_in_json,
        writer: |trace, mut out, dropped| {
            json::write(trace, json::Dialect::Chrome, &mut out, dropped)
        },
    }
    /// JSON of the Dart VM's timeline.
    Dart {
        name: "dart",
        endings: [".dart.json"],
        reader: Some(Kind::Json),
        lacks: |content| content == Header || not_in_json(content),
        writer: |trace, mut out, dropped| {
            json::write(trace, json::Dialect::Dart, &mut out, dropped)
        },
    }
    /// Method trace, version 3 if there are CPU times, else 2.
    Traceview {
        name: "traceview",
        endings: [".trace"],
        reader: Some(Kind::Method),
        lacks: |content| all_but_wall_time(content) && content != CpuTimes,
        writer: |trace, mut out, dropped| method_trace::write(trace, true, &mut out, dropped),
    }
    /// Method trace, version 2.
    TraceviewV2 {
        name: "traceview-v2",
        endings: [],
        reader: Some(Kind::Method),
        lacks: all_but_wall_time,
        writer: |trace, mut out, dropped| method_trace::write(trace, false, &mut out, dropped),
    }
    /// pprof's protobuf, for `go tool pprof` and speedscope.
    Pprof {
        name: "pprof",
        endings: [".pprof", ".pb"],
        reader: None,
        lacks: all_but_stacks,
        writer: |trace, mut out, _| pprof::write(trace, &mut out),
    }
}

impl Format {
    /// The name, as `--to` takes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// One line about the format, for help texts.
    #[must_use]
    pub fn about(self) -> &'static str {
        self.row().about.trim().trim_end_matches('.')
    }

    /// The endings of file names from which the format is inferred.
    #[must_use]
    pub const fn endings(self) -> &'static [&'static str] {
        self.row().endings
    }

    /// The kind that files of this format are read as; `None` if they are not read.
    #[must_use]
    pub const fn reader(self) -> Option<Kind> {
        self.row().reader
    }

    /// True if the format cannot represent content of this kind.
    #[must_use]
    pub fn lacks(self, content: Content) -> bool {
        (self.row().lacks)(content)
    }

    /// Returns the format with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|format| format.name() == name)
    }

    /// Infers the format from a file's name; the longest ending that fits counts. `.gz` and `.zst` are ignored.
    #[must_use]
    pub fn infer(name: &str) -> Option<Self> {
        let name = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(name);
        let fit = |format: &Self| {
            let fitting = format.endings().iter().filter(|&&ending| name.ends_with(ending));
            fitting.map(|ending| ending.len()).max()
        };
        Self::ALL.iter().copied().filter(|format| fit(format).is_some()).max_by_key(fit)
    }

    /// True if the format is ftrace text, alone or in a page.
    #[must_use]
    pub const fn is_text(self) -> bool {
        matches!(self, Self::Ftrace | Self::Atrace | Self::Html)
    }

    /// The kinds of events that the format can represent.
    pub fn events(self) -> impl Iterator<Item = Content> {
        let all = Content::VARIANTS.iter().copied();
        all.filter(move |&content| content.is_event() && !self.lacks(content))
    }

    /// True if the trace has something that the format can represent. For text a header is enough.
    #[must_use]
    pub fn can_represent_any_of(self, trace: &Trace) -> bool {
        self.events().any(|content| content.count(trace) > 0)
            || self.is_text() && Header.count(trace) > 0
    }

    /// Writes a trace, and counts what the format cannot represent.
    pub(crate) fn write(self, trace: &Trace, out: &mut dyn Write) -> io::Result<Dropped> {
        let mut dropped = Dropped::default();
        (self.row().writer)(trace, out, &mut dropped)?;
        self.count_dropped(trace, &mut dropped);
        Ok(dropped)
    }

    /// Counts the content that the format cannot represent.
    pub(crate) fn count_dropped(self, trace: &Trace, dropped: &mut Dropped) {
        let lacking = |content: &&Content| self.lacks(**content) && **content != KernelEvents;
        for content in Content::VARIANTS.iter().filter(lacking) {
            dropped.add(content.label(), content.count(trace));
        }
        for (what, count) in trace.reshaped.iter().filter(|_| self == Self::Perfetto) {
            dropped.add(what, *count);
        }
        if self != Self::Perfetto && !self.lacks(AsyncSlices) {
            let count = trace.losses.tracks_of_nobody;
            dropped.add("tracks without a process, written as those of process 0", count);
        }
        if self.is_text() {
            let count = trace.losses.nested_asyncs;
            dropped.add("async slices within others of their track, shown apart", count);
        }
        // Thread states are made from kernel events, and reappear with them; a page has the states itself.
        let has_states = self == Self::Html || self.lacks(ThreadStates);
        if !has_states && trace.kernel.is_empty() {
            dropped.add(ThreadStates.label(), ThreadStates.count(trace));
        }
        let is_written = !self.lacks(KernelEvents);
        let is_marker = |text: EventText<'_>| text.event == "tracing_mark_write";
        let written = trace
            .kernel
            .iter()
            .filter(|event| is_written && !trace.event_text(event).is_some_and(is_marker));
        let kernel_events = KernelEvents.count(trace).saturating_sub(written.count() as u64);
        dropped.add(KernelEvents.label(), kernel_events);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;
    use std::path::Path;

    #[test]
    fn formats_are_inferred_from_the_longest_ending() {
        for (name, expected) in [
            ("a.json", Some(Format::Chrome)),
            ("a.dart.json", Some(Format::Dart)),
            ("a.dart.json.gz", Some(Format::Dart)),
            ("a.perfetto-trace.zst", Some(Format::Perfetto)),
            ("a.trace", Some(Format::Traceview)),
            ("a.xyz", None),
            ("json", None),
        ] {
            assert_eq!(Format::infer(name), expected, "{name}");
        }
    }

    #[test]
    fn names_and_endings_are_unique() {
        let mut names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
        names.extend(Format::ALL.iter().flat_map(|format| format.endings()));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for &format in Format::ALL {
            assert_eq!(Format::named(format.name()), Some(format));
        }
    }

    #[test]
    fn a_file_of_each_format_is_recognized_by_its_reader() {
        let text = "# tracer: nop\n\
            app-5 (5) [000] ...1 1.000001: tracing_mark_write: B|5|x\n\
            app-5 (5) [000] ...1 1.000009: tracing_mark_write: E|5\n";
        let trace = tracetee_trace::read(text.as_bytes()).unwrap();
        for &format in Format::ALL {
            let mut out = Vec::new();
            format.write(&trace, &mut out).unwrap();
            let Some(kind) = format.reader() else { continue };
            let mut unpacked = tracetee_trace::open(Cursor::new(out.clone())).unwrap();
            assert_eq!(Kind::sniff(&mut *unpacked).unwrap(), kind, "{format:?}");
            let again = tracetee_trace::read_any(Cursor::new(out)).unwrap();
            assert_eq!(again.slice_count(), 1, "{format:?}");
        }
    }

    /// `docs/reference/FORMATS.md` as it must be.
    fn page() -> String {
        let mut page = "# Formats of traces\n\nThe formats that `tracetee convert` writes, and what each cannot represent. \
            [Convert traces](../CONVERT.md) lists those that it reads.\n\n\
            | `--to` | default for | cannot represent |\n|---|---|---|\n"
            .to_owned();
        for &format in Format::ALL {
            let endings: Vec<_> =
                format.endings().iter().map(|ending| format!("`{ending}`")).collect();
            let lacks = Content::VARIANTS.iter().filter(|content| format.lacks(**content));
            let lacks: Vec<_> = lacks.map(|content| content.label()).collect();
            let row = [&format!("`{}`", format.name()), &endings.join(" "), &lacks.join(", ")];
            page.push_str(&format!("| {} |\n", row.map(String::as_str).join(" | ")));
        }
        page
    }

    /// `TRACETEE_BLESS=1 cargo test -p tracetee-convert page_of_formats` writes it.
    #[test]
    fn the_page_of_formats_is_the_table() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/FORMATS.md");
        if std::env::var_os("TRACETEE_BLESS").is_some() {
            std::fs::write(&path, page()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), page());
    }
}
