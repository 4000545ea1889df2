//! From text to text: every line, in the one form that all viewers accept, with processes filled in from elsewhere in the
//! file. Reads the file twice; memory grows with its threads alone.

use std::io::{self, BufRead, Write};
use tracetee_protocol::notes::HEADER;
use tracetee_trace::Error;
use tracetee_trace::text::{LineReader, Outline, Part};

/// Writes the text that `open` returns (twice); facts about its threads from other texts are filled in too.
///
/// # Errors
/// [`Error`] names the problem of the text, or of `out`.
pub fn text_passthrough<R: BufRead>(
    open: impl Fn() -> Result<R, Error>,
    known: &[Outline],
    out: &mut (impl Write + ?Sized),
) -> Result<Outline, Error> {
    let mut outline = Outline::read(open()?)?;
    known.iter().for_each(|known| outline.add(known));
    out.write_all(HEADER.as_bytes()).map_err(Error::Io)?;
    let mut failed = None;
    let mut reader = LineReader::new(open()?);
    while let Some(part) = reader.next_part()? {
        let written = match part {
            Part::About(line) => line_of(out, line),
            Part::Event(line) => event(out, &outline, &line),
        };
        if let Err(error) = written {
            failed = Some(error);
            break;
        }
    }
    match failed {
        Some(error) => Err(Error::Io(error)),
        None => Ok(outline),
    }
}

fn line_of(out: &mut (impl Write + ?Sized), line: &[u8]) -> io::Result<()> {
    out.write_all(line)?;
    out.write_all(b"\n")
}

fn event(
    out: &mut (impl Write + ?Sized),
    outline: &Outline,
    line: &tracetee_trace::text::Line<'_>,
) -> io::Result<()> {
    let named = outline.threads.get(&line.tid);
    let name = named.and_then(|thread| thread.name.as_deref());
    crate::line::write(out, line, line.at_ns, name, named.and_then(|thread| thread.pid))
}
