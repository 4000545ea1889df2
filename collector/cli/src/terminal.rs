//! Prints: requested output to stdout, messages and the log to stderr.
//!
//! Messages of our own carry the program's name, so that a traced program's output stays its own. All of it may have names from
//! captures, files and peers, whose control characters are escaped here; a file in a format is written elsewhere, as it is.

use crate::progress;
use std::io::{self, Write};
use tracetee_trace::{shown, shown_lines};

/// Writes a message of ours to stderr: one line.
pub(crate) fn say(message: &str) {
    progress::aside(|| {
        // A closed stderr is no reason to fail.
        let _ = writeln!(io::stderr(), "tracetee: {}", shown(message.trim_end()));
    });
}

/// Writes a text of ours to stderr, which may have several lines.
#[cfg(target_os = "linux")]
pub(crate) fn say_lines(text: &str) {
    text.lines().for_each(say);
}

/// Writes output that was asked for to stdout.
pub(crate) fn print(text: &str) {
    progress::end();
    // A closed pipe (`| head`) is no reason to fail.
    let _ = Plain(io::stdout().lock(), Vec::new()).write_all(text.as_bytes());
}

/// Writes a file in a format to stdout.
pub(crate) fn print_file(bytes: &[u8]) {
    progress::end();
    let _ = io::stdout().write_all(bytes);
}

/// Writes text to a terminal, line by line, with control characters escaped.
pub(crate) struct Plain<W: Write>(pub(crate) W, pub(crate) Vec<u8>);

impl<W: Write> Write for Plain<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1.extend_from_slice(bytes);
        if let Some(end) = self.1.iter().rposition(|&byte| byte == b'\n') {
            let rest = self.1.split_off(end + 1);
            let lines = std::mem::replace(&mut self.1, rest);
            self.0.write_all(shown_lines(&String::from_utf8_lossy(&lines)).as_bytes())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let rest = std::mem::take(&mut self.1);
        self.0.write_all(shown_lines(&String::from_utf8_lossy(&rest)).as_bytes())?;
        self.0.flush()
    }
}

impl<W: Write> Drop for Plain<W> {
    fn drop(&mut self) {
        let _ = self.flush();
    }
}

/// Writes the log to stderr: each event is one line, written at once.
#[cfg(target_os = "linux")]
pub(crate) struct Log;

#[cfg(target_os = "linux")]
impl Write for Log {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let line = String::from_utf8_lossy(event.strip_suffix(b"\n").unwrap_or(event));
        io::stderr().write_all(format!("{}\n", shown(&line)).as_bytes()).map(|()| event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
