//! Values of a parsed text: small handles that convert when they are asked.

use super::decimal::{self, Decimal};
use super::error::{Error, Position};
use super::number;
use super::parse::{Node, OPEN, Tree, to_u32, unescape};
use std::borrow::Cow;

/// The kind of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of JSON")]
pub enum Kind {
    Null,
    False,
    True,
    Number,
    Text,
    Array,
    Object,
}

/// A value of a [`Tree`].
#[derive(Debug, Clone, Copy)]
pub struct Value<'a> {
    pub(super) tree: &'a Tree<'a>,
    pub(super) node: u32,
}

impl<'a> Value<'a> {
    fn node(self) -> Node {
        // A handle is made from an existing node.
        let none = Node { kind: Kind::Null, escaped: false, start: 0, end: 0, next: OPEN };
        self.tree.nodes.get(self.node as usize).copied().unwrap_or(none)
    }

    /// The kind of the value.
    pub fn kind(self) -> Kind {
        self.node().kind
    }

    /// The value as written, without surrounding space.
    pub fn raw(self) -> &'a str {
        let Node { start, end, .. } = self.node();
        self.tree.text.get(start as usize..end as usize).unwrap_or_default()
    }

    /// True for `null`.
    pub fn is_null(self) -> bool {
        self.kind() == Kind::Null
    }

    /// The value of `true` and `false`.
    pub fn bool(self) -> Option<bool> {
        match self.kind() {
            Kind::True => Some(true),
            Kind::False => Some(false),
            _ => None,
        }
    }

    /// A whole number from 0 that is written without point and exponent.
    pub fn u64(self) -> Option<u64> {
        (self.kind() == Kind::Number).then(|| number::parse_u64(self.raw())).flatten()
    }

    /// A whole number that is written without point and exponent.
    pub fn i64(self) -> Option<i64> {
        (self.kind() == Kind::Number).then(|| number::parse_i64(self.raw())).flatten()
    }

    /// A number, rounded to millionths; larger numbers become the largest value.
    pub fn decimal(self) -> Option<Decimal> {
        (self.kind() == Kind::Number).then(|| decimal::parse(self.raw()))
    }

    /// A text, unescaped.
    pub fn text(self) -> Option<Cow<'a, str>> {
        let Node { kind: Kind::Text, escaped, .. } = self.node() else { return None };
        let raw = self.raw();
        let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
        Some(if escaped { Cow::Owned(unescaped(inner)) } else { Cow::Borrowed(inner) })
    }

    /// The elements of an array; none for another kind.
    pub fn items(self) -> Items<'a> {
        Items(self.children(Kind::Array))
    }

    /// Keys and values of an object in the order of the text; none for another kind.
    pub fn members(self) -> Members<'a> {
        Members(self.children(Kind::Object))
    }

    fn children(self, kind: Kind) -> Children<'a> {
        let node = self.node();
        let end = if node.kind == kind { node.next } else { 0 };
        Children { tree: self.tree, at: self.node + 1, end }
    }

    /// The object's member of that name; the last one, if there are several.
    pub fn get(self, name: &str) -> Option<Value<'a>> {
        self.members().filter(|(key, _)| key == name).map(|(_, value)| value).last()
    }

    /// The path from the document's root: `windows[2].max_s`; empty for the root.
    pub fn path(self) -> String {
        self.tree.path(self.node as usize)
    }

    /// An error about this value.
    pub fn error(self, reason: impl Into<String>) -> Error {
        let offset = self.node().start as usize;
        let position = Some(Position::new(self.tree.text.as_bytes(), offset));
        Error::at(self.path(), reason.into(), position)
    }

    /// An error that states the expected kind of value, and shows the actual value.
    pub fn expected(self, what: &str) -> Error {
        const SHOWN_BYTES: usize = 60;
        let given = match self.kind() {
            Kind::Array => "an array",
            Kind::Object => "an object",
            _ => self.raw(),
        };
        let mut end = given.len().min(SHOWN_BYTES);
        while !given.is_char_boundary(end) {
            end -= 1;
        }
        let more = if end < given.len() { "…" } else { "" };
        let given = given.get(..end).unwrap_or_default();
        self.error(["must be ", what, ", not ", given, more].concat())
    }

    /// Remembers that no reader knows this field, see [`Tree::unknown`].
    pub fn set_unknown(self) {
        self.tree.add_unknown(self.node);
    }
}

/// The text without its escapes, which the parser has checked.
fn unescaped(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, _)) = rest.split_once('\\') {
        clean.push_str(before);
        rest = rest.get(before.len()..).unwrap_or_default();
        let Some((char, len)) = unescape(rest.as_bytes()) else { break };
        clean.push(char);
        rest = rest.get(len..).unwrap_or_default();
    }
    clean.push_str(rest);
    clean
}

/// The nodes on one level.
#[derive(Debug, Clone)]
struct Children<'a> {
    tree: &'a Tree<'a>,
    at: u32,
    end: u32,
}

impl<'a> Children<'a> {
    fn next(&mut self) -> Option<Value<'a>> {
        if self.at >= self.end {
            return None;
        }
        let value = Value { tree: self.tree, node: self.at };
        self.at = value.node().next.max(to_u32(self.at as usize + 1));
        Some(value)
    }
}

/// Elements of an array.
#[derive(Debug, Clone)]
pub struct Items<'a>(Children<'a>);

impl<'a> Iterator for Items<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        self.0.next()
    }
}

/// Keys and values of an object.
#[derive(Debug, Clone)]
pub struct Members<'a>(Children<'a>);

impl<'a> Iterator for Members<'a> {
    type Item = (Cow<'a, str>, Value<'a>);

    fn next(&mut self) -> Option<(Cow<'a, str>, Value<'a>)> {
        let key = self.0.next()?;
        Some((key.text().unwrap_or_default(), self.0.next()?))
    }
}
