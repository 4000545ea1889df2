//! Prints: requested output to stdout, messages to stderr.
//!
//! Messages of our own carry the program's name, so that a traced program's output stays its own.

use std::io::Write;

/// Writes a message of ours to stderr.
pub(crate) fn say(message: &str) {
    for line in message.lines() {
        // A closed stderr is no reason to fail.
        let _ = writeln!(std::io::stderr(), "tracetee: {line}");
    }
}

/// Writes output that was asked for to stdout.
pub(crate) fn print(text: &(impl AsRef<[u8]> + ?Sized)) {
    // A closed pipe (`| head`) is no reason to fail.
    let _ = std::io::stdout().write_all(text.as_ref());
}
