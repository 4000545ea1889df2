//! A line of ftrace text in the only form that Perfetto, catapult and systrace all accept.

use std::borrow::Cow;
use std::io::{self, Write};
use tracetee_trace::text::{self, Line};

/// The kernel's name of a thread whose name it does not know.
pub(crate) const NAMELESS: &str = "<...>";

/// Writes an event with facts about its thread from elsewhere: `name`, where the line has none, and `pid`.
pub(crate) fn write(
    out: &mut (impl Write + ?Sized),
    line: &Line<'_>,
    at_ns: u64,
    name: Option<&[u8]>,
    pid: Option<u32>,
) -> io::Result<()> {
    let name = match line.task {
        b"" | b"<...>" => name,
        name => Some(name),
    };
    match name.map(unscripted) {
        Some(name) => {
            for _ in name.len()..16 {
                out.write_all(b" ")?;
            }
            out.write_all(&name)?;
        }
        None => write!(out, "{NAMELESS:>16}")?,
    }
    write!(out, "-{:<7} ", line.tid)?;
    match line.tgid.or(pid) {
        Some(pid) => write!(out, "({pid:5})")?,
        None => out.write_all(b"(-----)")?,
    }
    write!(out, " [{:03}] ", line.cpu)?;
    out.write_all(if line.flags.len() >= 4 { line.flags } else { b"...1" })?;
    let (seconds, ns) = (at_ns / 1_000_000_000, at_ns % 1_000_000_000);
    if ns % 1000 == 0 {
        write!(out, " {seconds}.{:06}: ", ns / 1000)?;
    } else {
        write!(out, " {seconds}.{ns:09}: ")?;
    }
    out.write_all(if line.is_marker() { b"tracing_mark_write" } else { line.event })?;
    out.write_all(b": ")?;
    let payload = text::payload(line);
    match text::with_names(payload).filter(|_| line.is_marker()) {
        Some(named) => out.write_all(&unscripted(&named))?,
        None => out.write_all(&unscripted(payload))?,
    }
    out.write_all(b"\n")
}

/// Text in which a space splits a script element's end tag. Perfetto stops reading plain text at such a tag.
pub(crate) fn unscripted(text: &[u8]) -> Cow<'_, [u8]> {
    without(text, &[b"</script"])
}

/// Text in which a space splits these marks, each of which begins with `<`, in any letter case.
pub(crate) fn without<'a>(text: &'a [u8], marks: &[&[u8]]) -> Cow<'a, [u8]> {
    let mut made: Vec<u8> = Vec::new();
    let mut done = 0;
    for start in memchr::memchr_iter(b'<', text) {
        let rest = text.get(start..).unwrap_or_default();
        let begins = |mark: &&[u8]| {
            rest.get(..mark.len()).is_some_and(|found| found.eq_ignore_ascii_case(mark))
        };
        if marks.iter().any(begins) {
            made.extend_from_slice(text.get(done..=start).unwrap_or_default());
            made.push(b' ');
            done = start + 1;
        }
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    made.extend_from_slice(text.get(done..).unwrap_or_default());
    Cow::Owned(made)
}
