//! The error type of the reader: the invalid field, the reason, and its position in the text.

use std::fmt;

/// A place in a JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Bytes from the beginning.
    pub offset: usize,
    /// Lines, from 1.
    pub line: usize,
    /// Bytes from the beginning of the line, from 1.
    pub column: usize,
}

impl Position {
    /// The place of a byte of `text`.
    pub(crate) fn new(text: &[u8], offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let breaks = before.iter().filter(|&&byte| byte == b'\n').count();
        Self { offset, line: breaks + 1, column: before.len() - line_start + 1 }
    }
}

/// A document that was refused. One pointer, so that results with it are small.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(Box<Refusal>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Refusal {
    path: String,
    reason: String,
    position: Option<Position>,
}

impl Error {
    /// An error without a place in a text.
    pub fn new(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::at(path.into(), reason.into(), None)
    }

    pub(super) fn at(path: String, reason: String, position: Option<Position>) -> Self {
        Self(Box::new(Refusal { path, reason, position }))
    }

    /// The field (`windows[2].max_s`); empty for the document itself.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.0.path
    }

    pub(crate) fn path_mut(&mut self) -> &mut String {
        &mut self.0.path
    }

    /// The reason, with the limit that was exceeded.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.0.reason
    }

    /// The field's place in the text; `None` for a value that was never text.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        self.0.position
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path().is_empty() {
            f.write_str(self.path())?;
            f.write_str(": ")?;
        }
        f.write_str(self.reason())?;
        match self.position() {
            Some(Position { line, column, .. }) => write!(f, " (line {line}, column {column})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}
