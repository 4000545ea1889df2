//! Prints: requested output to stdout, messages and the log to stderr.
//!
//! Our own messages have the program's name as a prefix, to distinguish them from a traced program's output. All output may
//! contain names from captures, files and peers, whose control characters are escaped here; formatted files are written
//! elsewhere, unchanged.

use crate::progress;
use crate::verbosity::is_quiet;
use anstyle::{AnsiColor, Style};
use clap::ColorChoice;
use std::io::{self, Write};
use tracetee_fleet::report::{Tone, pieces};
use tracetee_trace::{shown, shown_lines};

/// Uses colours from now on as `--color` says.
pub(crate) fn set_color(choice: ColorChoice) {
    match choice {
        ColorChoice::Auto => anstream::ColorChoice::Auto,
        ColorChoice::Always => anstream::ColorChoice::Always,
        ColorChoice::Never => anstream::ColorChoice::Never,
    }
    .write_global();
}

/// Writes one of the program's messages to stderr, in one line.
pub(crate) fn say(message: &str) {
    say_labelled(None, message);
}

/// Writes a message to stderr, unless `--quiet` was given.
pub(crate) fn note(message: &str) {
    if !is_quiet() {
        say(message);
    }
}

/// Writes a message to stderr, after a label with a tone.
fn say_labelled(label: Option<(Tone, &str)>, message: &str) {
    let label = label.map(|(tone, label)| {
        let style = style(tone);
        format!("{style}{label}:{style:#} ")
    });
    progress::aside(|| {
        // A closed stderr is not an error.
        let (label, message) = (label.unwrap_or_default(), shown(message.trim_end()));
        let _ = writeln!(anstream::stderr(), "tracetee: {label}{message}");
    });
}

/// An error with what to do about it.
#[derive(Debug, thiserror::Error)]
#[error("{message}; {hint}")]
pub(crate) struct Hinted {
    message: String,
    hint: String,
}

/// Makes an error of a message and a hint: what to do, beginning with a verb.
pub(crate) fn hinted(message: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
    Hinted { message: message.into(), hint: hint.into() }.into()
}

/// Writes an error to stderr, and its hint on its own line.
pub(crate) fn fail(error: &anyhow::Error) {
    let (message, hint) = words(error);
    say_labelled(Some((Tone::Worse, "error")), &message);
    hint.iter().for_each(|hint| say_labelled(Some((Tone::Hint, "hint")), hint));
}

/// Returns the message of an error and of its causes, and the first hint.
fn words(error: &anyhow::Error) -> (String, Option<String>) {
    let (mut message, mut found) = (String::new(), None);
    for cause in error.chain() {
        let text = cause.to_string();
        let (what, hint) = if let Some(Hinted { message, hint }) = cause.downcast_ref() {
            (&**message, Some(hint.clone()))
        } else if cause.is::<tracetee_fleet::Error>()
            && let Some((what, hint)) = text.split_once("; run `")
        {
            (what, Some(format!("run `{hint}")))
        } else {
            (&*text, None)
        };
        // The message of an error may end with that of its cause.
        if !message.ends_with(what) {
            message += if message.is_empty() { "" } else { ": " };
            message += what;
        }
        found = found.or(hint);
    }
    (message, found)
}

/// Returns the style of a tone on a terminal.
const fn style(tone: Tone) -> Style {
    let color = match tone {
        Tone::Title => return Style::new().bold(),
        Tone::Worse => return AnsiColor::Red.on_default().bold(),
        Tone::Better => AnsiColor::Green,
        Tone::Late => AnsiColor::Yellow,
        Tone::Hint => AnsiColor::Cyan,
    };
    color.on_default()
}

/// Writes a report to stdout, in colours where these are wanted.
pub(crate) fn print_report(text: &str) {
    progress::end();
    let mut out = anstream::stdout().lock();
    for (tone, words) in pieces(text) {
        let (style, words) = (tone.map_or_else(Style::new, style), shown_lines(words));
        // A closed pipe is not a reason to fail.
        let _ = write!(out, "{style}{words}{style:#}");
    }
}

/// Writes one of the program's texts to stderr; it may have several lines.
#[cfg(target_os = "linux")]
pub(crate) fn say_lines(text: &str) {
    text.lines().for_each(say);
}

/// Writes requested output to stdout.
pub(crate) fn print(text: &str) {
    progress::end();
    // A closed pipe (`| head`) is not a reason to fail.
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
pub(crate) struct Log;

impl Write for Log {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let line = String::from_utf8_lossy(event.strip_suffix(b"\n").unwrap_or(event));
        let line = format!("{}\n", shown(&line));
        let mut written = Ok(());
        progress::aside(|| written = io::stderr().write_all(line.as_bytes()));
        written.map(|()| event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_said_once() {
        let missing = io::Error::from_raw_os_error(2);
        let missing =
            tracetee_uploader::Error::Io { what: "read", path: "a.pem".into(), source: missing };
        let (message, hint) = words(&anyhow::Error::new(missing).context("the collector"));
        let expected = "the collector: cannot read a.pem: No such file or directory (os error 2)";
        assert_eq!((&*message, hint), (expected, None));
        let hinted = hinted("two tokens", "pass one").context("cannot start");
        assert_eq!(
            words(&hinted),
            ("cannot start: two tokens".to_owned(), Some("pass one".to_owned()))
        );
    }
}
