//! The parser: one pass over the bytes, no recursion, bounded in bytes, depth and values.
//!
//! Each value becomes a [`Node`] in the order of the text. A container's node has the position of the node after its last
//! child, which is all that a walk needs.

use super::error::{Error, Position};
use super::value::{Kind, Value};
use std::cell::RefCell;

/// Bounds of a document.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of the text.
    pub bytes: usize,
    /// Maximum nesting depth of arrays and objects.
    pub depth: usize,
    /// Values and keys.
    pub nodes: usize,
}

impl Limits {
    /// Limits for our own documents: 4 MiB, 128 levels, 262,144 values and keys.
    pub const DEFAULT: Self = Self { bytes: 4 << 20, depth: 128, nodes: 1 << 18 };
}

/// A value, or a key of an object; the key's value follows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    pub(super) kind: Kind,
    /// For a string: true if it contains escapes.
    pub(super) escaped: bool,
    /// The first byte.
    pub(super) start: u32,
    /// The byte after the last one.
    pub(super) end: u32,
    /// The node after its last child; [`OPEN`] while the container is not closed.
    pub(super) next: u32,
}

/// The `next` of a container that is being read.
pub(super) const OPEN: u32 = u32::MAX;

/// Unknown fields that are remembered.
const MAX_UNKNOWN: usize = 16;

/// A checked JSON text.
#[derive(Debug)]
pub struct Tree<'a> {
    pub(super) text: &'a str,
    pub(super) nodes: Vec<Node>,
    /// Nodes of fields that no reader knew.
    pub(super) unknown: RefCell<Vec<u32>>,
}

impl<'a> Tree<'a> {
    /// Checks `bytes` and indexes their values.
    ///
    /// # Errors
    /// [`Error`] with the place where the text is not JSON, is not UTF-8, or exceeds `limits`.
    pub fn parse(bytes: &'a [u8], limits: Limits) -> Result<Self, Error> {
        let refuse = |offset, reason: &str| {
            Error::at(String::new(), reason.to_owned(), Some(Position::new(bytes, offset)))
        };
        if bytes.len() > limits.bytes || u32::try_from(bytes.len()).is_err() {
            return Err(Error::new("", too_many(bytes.len(), "bytes", limits.bytes)));
        }
        let text = std::str::from_utf8(bytes)
            .map_err(|error| refuse(error.valid_up_to(), "is not UTF-8"))?;
        let tree = Self { text, nodes: Vec::new(), unknown: RefCell::default() };
        let mut parser = Parser { bytes, at: 0, tree, open: Vec::new(), limits };
        match parser.document() {
            Ok(()) => Ok(parser.tree),
            Err(reason) => {
                let mut error = refuse(parser.at, &reason);
                // Within a container, the value that was read last is the nearest.
                if !parser.open.is_empty() {
                    *error.path_mut() = parser.tree.path(parser.tree.nodes.len() - 1);
                }
                Err(error)
            }
        }
    }

    /// The document's value.
    pub const fn root(&self) -> Value<'_> {
        Value { tree: self, node: 0 }
    }

    /// Paths of the fields that a reader met and did not know, at most 16.
    pub fn unknown(&self) -> Vec<String> {
        self.unknown.borrow().iter().map(|&node| self.path(node as usize)).collect()
    }

    pub(super) fn add_unknown(&self, node: u32) {
        let mut unknown = self.unknown.borrow_mut();
        if unknown.len() < MAX_UNKNOWN {
            unknown.push(node);
        }
    }

    /// The path of a node, found from the root, because only errors need it.
    pub(super) fn path(&self, node: usize) -> String {
        let mut path = String::new();
        let mut container = 0;
        while container < node {
            let Some(&Node { kind, next: end, .. }) = self.nodes.get(container) else { break };
            let end = if end == OPEN { self.nodes.len() } else { end as usize };
            let mut child = container + 1;
            let mut index = 0;
            // The child that is `node` or contains it.
            loop {
                let value = if kind == Kind::Object { child + 1 } else { child };
                let next = self.nodes.get(value).map_or(OPEN, |node| node.next);
                if node < next as usize || next as usize >= end {
                    if kind == Kind::Object {
                        if !path.is_empty() {
                            path.push('.');
                        }
                        if let Some(key) = (Value { tree: self, node: to_u32(child) }).text() {
                            path.push_str(&key);
                        }
                    } else {
                        path.push('[');
                        super::write::push_u64(&mut path, index);
                        path.push(']');
                    }
                    if node <= value {
                        return path;
                    }
                    container = value;
                    break;
                }
                child = next as usize;
                index += 1;
            }
        }
        path
    }
}

/// There are fewer nodes than bytes, and fewer than 2^32 bytes.
pub(super) fn to_u32(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(OPEN)
}

fn too_many(count: usize, what: &str, limit: usize) -> String {
    let mut reason = String::from("has ");
    super::write::push_u64(&mut reason, count as u64);
    for part in [" ", what, ", at most "] {
        reason.push_str(part);
    }
    super::write::push_u64(&mut reason, limit as u64);
    reason
}

struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
    tree: Tree<'a>,
    /// The containers that are being read, innermost last.
    open: Vec<u32>,
    limits: Limits,
}

type Parsed = Result<(), String>;

fn refuse(reason: &str) -> Parsed {
    Err(reason.to_owned())
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn document(&mut self) -> Parsed {
        self.value()?;
        while let Some(&container) = self.open.last() {
            self.next_child(container)?;
        }
        self.skip_space();
        if self.at < self.bytes.len() {
            return refuse("JSON ends here, but the text continues");
        }
        Ok(())
    }

    /// Reads the next child of a container, or its end.
    fn next_child(&mut self, container: u32) -> Parsed {
        let Some(&Node { kind, .. }) = self.tree.nodes.get(container as usize) else {
            return Ok(());
        };
        let is_object = kind == Kind::Object;
        let is_first = self.tree.nodes.len() == container as usize + 1;
        let close = if is_object { b'}' } else { b']' };
        self.skip_space();
        match self.peek() {
            Some(byte) if byte == close => {
                self.at += 1;
                let (end, next) = (to_u32(self.at), to_u32(self.tree.nodes.len()));
                if let Some(node) = self.tree.nodes.get_mut(container as usize) {
                    (node.end, node.next) = (end, next);
                }
                self.open.pop();
                return Ok(());
            }
            Some(b',') if !is_first => self.at += 1,
            None => return refuse("the text ends too early"),
            Some(_) if is_first => {}
            Some(_) if is_object => return refuse("expected `,` or `}`"),
            Some(_) => return refuse("expected `,` or `]`"),
        }
        if is_object {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return self.unexpected("a key in quotes");
            }
            self.text()?;
            self.skip_space();
            if self.peek() != Some(b':') {
                return self.unexpected("`:`");
            }
            self.at += 1;
        }
        self.value()
    }

    fn unexpected(&self, expected: &str) -> Parsed {
        match self.peek() {
            None => refuse("the text ends too early"),
            Some(_) => Err(["expected ", expected].concat()),
        }
    }

    /// Reads a value; of a container its beginning.
    fn value(&mut self) -> Parsed {
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.begin(Kind::Object),
            Some(b'[') => self.begin(Kind::Array),
            Some(b'"') => self.text(),
            Some(b't') => self.word(b"true", Kind::True),
            Some(b'f') => self.word(b"false", Kind::False),
            Some(b'n') => self.word(b"null", Kind::Null),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.unexpected("a value"),
        }
    }

    /// Adds a node that extends from `start` to the current byte.
    fn add(&mut self, kind: Kind, start: usize, escaped: bool) -> Parsed {
        let count = self.tree.nodes.len();
        if count >= self.limits.nodes {
            return Err(too_many(count + 1, "values", self.limits.nodes));
        }
        let is_open = matches!(kind, Kind::Array | Kind::Object);
        self.tree.nodes.push(Node {
            kind,
            escaped,
            start: to_u32(start),
            end: to_u32(self.at),
            next: if is_open { OPEN } else { to_u32(count + 1) },
        });
        Ok(())
    }

    fn begin(&mut self, kind: Kind) -> Parsed {
        let start = self.at;
        if self.open.len() >= self.limits.depth {
            return Err(too_many(self.open.len() + 1, "levels", self.limits.depth));
        }
        self.at += 1;
        self.open.push(to_u32(self.tree.nodes.len()));
        self.add(kind, start, false)
    }

    fn word(&mut self, word: &[u8], kind: Kind) -> Parsed {
        let start = self.at;
        if !self.bytes.get(start..).is_some_and(|rest| rest.starts_with(word)) {
            return refuse("expected a value");
        }
        self.at += word.len();
        self.add(kind, start, false)
    }

    fn digits(&mut self) -> Parsed {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == start { self.unexpected("a digit") } else { Ok(()) }
    }

    fn number(&mut self) -> Parsed {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
            if let Some(b'0'..=b'9') = self.peek() {
                return refuse("a number must not begin with 0");
            }
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        self.add(Kind::Number, start, false)
    }

    fn text(&mut self) -> Parsed {
        let start = self.at;
        let mut escaped = false;
        self.at += 1;
        loop {
            match self.peek() {
                None => return refuse("the text ends too early"),
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(0..=0x1f) => return refuse("a control character in a text must be escaped"),
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        self.add(Kind::Text, start, escaped)
    }

    fn escape(&mut self) -> Parsed {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        match unescape(rest) {
            Some((_, len)) => {
                self.at += len;
                Ok(())
            }
            None => refuse("is not a JSON escape, or is half a surrogate pair"),
        }
    }
}

/// The character of the escape at the beginning of `bytes`, and the escape's length.
pub(super) fn unescape(bytes: &[u8]) -> Option<(char, usize)> {
    let char = match bytes.get(1)? {
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        &other @ (b'"' | b'\\' | b'/') => char::from(other),
        b'u' => return unescape_unicode(bytes),
        _ => return None,
    };
    Some((char, 2))
}

fn unescape_unicode(bytes: &[u8]) -> Option<(char, usize)> {
    let high = hexadecimal(bytes.get(2..6)?)?;
    if let Some(char) = char::from_u32(high) {
        return Some((char, 6));
    }
    if bytes.get(6..8)? != b"\\u" {
        return None;
    }
    let low = hexadecimal(bytes.get(8..12)?)?;
    let is_pair = (0xd800..0xdc00).contains(&high) && (0xdc00..0xe000).contains(&low);
    let char = char::from_u32(0x1_0000 + ((high & 0x3ff) << 10) + (low & 0x3ff))?;
    is_pair.then_some((char, 12))
}

fn hexadecimal(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |number, &digit| Some(number << 4 | char::from(digit).to_digit(16)?))
}
