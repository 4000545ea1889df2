//! Debug annotations of an event as one JSON object.

use super::sequence::Sequence;
use super::wire::{Fields, Malformed, Value};
use crate::names::Names;
use std::fmt::Write as _;

/// Dictionaries and lists in each other.
const MAX_DEPTH: usize = 32;
/// Bytes of an event's arguments; more annotations are left out.
const MAX_BYTES: usize = 1 << 20;

/// Makes JSON of an event's annotations.
pub(super) struct Json<'a> {
    pub(super) text: String,
    sequence: &'a Sequence,
    names: &'a Names,
}

impl<'a> Json<'a> {
    pub(super) fn new(sequence: &'a Sequence, names: &'a Names, mut text: String) -> Self {
        text.clear();
        Self { text, sequence, names }
    }

    /// Adds an annotation as a member of the object.
    pub(super) fn annotation(&mut self, message: &'a [u8]) -> Result<(), Malformed> {
        if self.text.len() > MAX_BYTES {
            return Err("an event has more than 1 MB of annotations");
        }
        self.text.push(if self.text.is_empty() { '{' } else { ',' });
        self.member(message, MAX_DEPTH)
    }

    /// Ends the object; empty if there was no annotation.
    pub(super) fn finish(mut self) -> String {
        if !self.text.is_empty() {
            self.text.push('}');
        }
        self.text
    }

    fn member(&mut self, message: &'a [u8], depth: usize) -> Result<(), Malformed> {
        let mut name = "";
        let mut own = None;
        for field in Fields::of(message) {
            match field? {
                (1, value) => {
                    let id = self.sequence.annotation_names.get(value.number()?);
                    name = id.map_or("", |&id| self.names.text(id));
                }
                (10, value) => own = Some(String::from_utf8_lossy(value.bytes()?)),
                _ => {}
            }
        }
        quote(&mut self.text, own.as_deref().unwrap_or(name));
        self.text.push(':');
        self.value(message, depth)
    }

    fn value(&mut self, message: &'a [u8], depth: usize) -> Result<(), Malformed> {
        if depth == 0 {
            return Err("annotations are nested too deep");
        }
        let start = self.text.len();
        let mut list = None;
        for field in Fields::of(message) {
            let (number, value) = field?;
            if matches!(number, 11 | 12) {
                if self.text.len() > MAX_BYTES {
                    return Err("an event has more than 1 MB of annotations");
                }
                let (open, close) = if number == 11 { ('{', '}') } else { ('[', ']') };
                if list.is_none() {
                    self.text.truncate(start);
                }
                self.text.push(if list.replace(close).is_some() { ',' } else { open });
                let entry = value.bytes()?;
                if number == 11 {
                    self.member(entry, depth - 1)?;
                } else {
                    self.value(entry, depth - 1)?;
                }
                continue;
            }
            if list.is_none() && matches!(number, 2..=9 | 17) {
                self.text.truncate(start);
                self.scalar(number, value, depth)?;
            }
        }
        if let Some(close) = list {
            self.text.push(close);
        }
        if self.text.len() == start {
            self.text.push_str("null");
        }
        Ok(())
    }

    fn scalar(&mut self, number: u32, value: Value<'a>, depth: usize) -> Result<(), Malformed> {
        let text = &mut self.text;
        match number {
            2 => text.push_str(if value.bool()? { "true" } else { "false" }),
            3 => write(text, value.number()?),
            4 => write(text, value.int()?),
            5 => float(text, value.f64()?),
            6 => quote(text, &String::from_utf8_lossy(value.bytes()?)),
            7 => {
                let _ = write!(text, "\"{:#x}\"", value.number()?);
            }
            8 => self.nested(value.bytes()?, depth - 1)?,
            9 => {
                let json = String::from_utf8_lossy(value.bytes()?);
                if serde_json::from_str::<&serde_json::value::RawValue>(&json).is_ok() {
                    text.push_str(&json);
                } else {
                    quote(text, &json);
                }
            }
            _ => {
                let id = self.sequence.annotation_values.get(value.number()?);
                quote(text, id.map_or("", |&id| self.names.text(id)));
            }
        }
        Ok(())
    }

    /// A `NestedValue`, the older form of dictionaries and lists.
    fn nested(&mut self, message: &'a [u8], depth: usize) -> Result<(), Malformed> {
        if depth == 0 {
            return Err("annotations are nested too deep");
        }
        let (mut kind, mut keys, mut values, mut items) = (0, Vec::new(), Vec::new(), Vec::new());
        let mut scalar = None;
        for field in Fields::of(message) {
            match field? {
                (1, value) => kind = value.number()?,
                (2, value) => keys.push(value.bytes()?),
                (3, value) => values.push(value.bytes()?),
                (4, value) => items.push(value.bytes()?),
                (5, value) => scalar = Some((4, value)),
                (6, value) => scalar = Some((5, value)),
                (7, value) => scalar = Some((2, value)),
                (8, value) => scalar = Some((6, value)),
                _ => {}
            }
        }
        match (kind, scalar) {
            (1, _) => {
                self.text.push('{');
                for (place, (key, value)) in keys.into_iter().zip(values).enumerate() {
                    if place > 0 {
                        self.text.push(',');
                    }
                    quote(&mut self.text, &String::from_utf8_lossy(key));
                    self.text.push(':');
                    self.nested(value, depth - 1)?;
                }
                self.text.push('}');
            }
            (2, _) => {
                self.text.push('[');
                for (place, item) in items.into_iter().enumerate() {
                    if place > 0 {
                        self.text.push(',');
                    }
                    self.nested(item, depth - 1)?;
                }
                self.text.push(']');
            }
            (_, Some((number, value))) => self.scalar(number, value, depth)?,
            _ => self.text.push_str("null"),
        }
        Ok(())
    }
}

fn write(text: &mut String, number: impl std::fmt::Display) {
    let _ = write!(text, "{number}");
}

/// A number; JSON has none for infinity, which becomes text.
fn float(text: &mut String, number: f64) {
    match serde_json::Number::from_f64(number) {
        Some(number) => write(text, number),
        None => write(text, format_args!("\"{number}\"")),
    }
}

/// Appends a JSON string.
fn quote(text: &mut String, string: &str) {
    text.push('"');
    for char in string.chars() {
        match char {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\0'..='\u{1f}' => {
                let _ = write!(text, "\\u{:04x}", u32::from(char));
            }
            char => text.push(char),
        }
    }
    text.push('"');
}
