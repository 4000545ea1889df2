//! From text to text: every line, in the one form that all viewers accept, with processes filled in from elsewhere in the
//! file, from the caller's outline. Buffers no lines.

use std::io::{self, BufRead, Write};
use tracetee_protocol::notes::HEADER;
use tracetee_trace::Error;
use tracetee_trace::text::{self, Line, Outline, Part};

/// Writes a text; facts about its threads come from `outline`.
///
/// # Errors
/// [`Error`] names the problem of the text, or of `out`.
pub fn text_passthrough(
    text: impl BufRead,
    outline: &Outline,
    out: &mut (impl Write + ?Sized),
) -> Result<(), Error> {
    out.write_all(HEADER.as_bytes()).map_err(Error::Io)?;
    text::parts(text, |part| match part {
        Part::About(line) | Part::Details(line) => {
            out.write_all(line)?;
            out.write_all(b"\n")
        }
        Part::Event(line) => event(out, outline, &line),
    })
}

fn event(out: &mut (impl Write + ?Sized), outline: &Outline, line: &Line<'_>) -> io::Result<()> {
    let named = outline.threads.get(&line.tid);
    let name = named.and_then(|thread| thread.name.as_deref());
    crate::line::write(out, line, line.at_ns, name, named.and_then(|thread| thread.pid))
}
