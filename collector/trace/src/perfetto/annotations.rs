//! Debug annotations of an event as one JSON object.

use super::fields::{annotation, nested_value};
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
                (annotation::name_iid, value) => {
                    let id = self.sequence.annotation_names.get(&value.number()?);
                    name = id.map_or("", |&id| self.names.text(id));
                }
                (annotation::name, value) => own = Some(String::from_utf8_lossy(value.bytes()?)),
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
            if matches!(number, annotation::dict_entries | annotation::array_values) {
                if self.text.len() > MAX_BYTES {
                    return Err("an event has more than 1 MB of annotations");
                }
                let (open, close) =
                    if number == annotation::dict_entries { ('{', '}') } else { ('[', ']') };
                if list.is_none() {
                    self.text.truncate(start);
                }
                self.text.push(if list.replace(close).is_some() { ',' } else { open });
                let entry = value.bytes()?;
                if number == annotation::dict_entries {
                    self.member(entry, depth - 1)?;
                } else {
                    self.value(entry, depth - 1)?;
                }
                continue;
            }
            if list.is_none() && is_scalar(number) {
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

    /// Writes the value of a field of which [`is_scalar`] is true.
    fn scalar(&mut self, number: u32, value: Value<'a>, depth: usize) -> Result<(), Malformed> {
        let text = &mut self.text;
        match number {
            annotation::bool_value => text.push_str(if value.bool()? { "true" } else { "false" }),
            annotation::uint_value => write(text, value.number()?),
            annotation::int_value => write(text, value.int()?),
            annotation::double_value => float(text, value.f64()?),
            annotation::string_value => quote(text, &String::from_utf8_lossy(value.bytes()?)),
            annotation::pointer_value => {
                let _ = write!(text, "\"{:#x}\"", value.number()?);
            }
            annotation::nested_value => self.nested(value.bytes()?, depth - 1)?,
            annotation::legacy_json_value => {
                let json = String::from_utf8_lossy(value.bytes()?);
                if serde_json::from_str::<&serde_json::value::RawValue>(&json).is_ok() {
                    text.push_str(&json);
                } else {
                    quote(text, &json);
                }
            }
            _ => {
                let id = self.sequence.annotation_values.get(&value.number()?);
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
                (nested_value::nested_type, value) => kind = value.number()?,
                (nested_value::dict_keys, value) => keys.push(value.bytes()?),
                (nested_value::dict_values, value) => values.push(value.bytes()?),
                (nested_value::array_values, value) => items.push(value.bytes()?),
                (nested_value::int_value, value) => scalar = Some((annotation::int_value, value)),
                (nested_value::double_value, value) => {
                    scalar = Some((annotation::double_value, value))
                }
                (nested_value::bool_value, value) => scalar = Some((annotation::bool_value, value)),
                (nested_value::string_value, value) => {
                    scalar = Some((annotation::string_value, value))
                }
                _ => {}
            }
        }
        let (open, close) = match (kind, scalar) {
            (1, _) => ('{', '}'),
            (2, _) => ('[', ']'),
            (_, Some((number, value))) => return self.scalar(number, value, depth),
            _ => {
                self.text.push_str("null");
                return Ok(());
            }
        };
        if kind == 1 {
            values.truncate(keys.len());
            items = values;
        } else {
            keys.clear();
        }
        self.text.push(open);
        let mut keys = keys.into_iter();
        for (index, item) in items.into_iter().enumerate() {
            if index > 0 {
                self.text.push(',');
            }
            if let Some(key) = keys.next() {
                quote(&mut self.text, &String::from_utf8_lossy(key));
                self.text.push(':');
            }
            self.nested(item, depth - 1)?;
        }
        self.text.push(close);
        Ok(())
    }
}

fn write(text: &mut String, number: impl std::fmt::Display) {
    let _ = write!(text, "{number}");
}

/// A number; infinity becomes a string, because JSON has no such number.
fn float(text: &mut String, number: f64) {
    match serde_json::Number::from_f64(number) {
        Some(number) => write(text, number),
        None => write(text, format_args!("\"{number}\"")),
    }
}

/// Appends a JSON string.
fn quote(text: &mut String, string: &str) {
    text.push_str(&serde_json::to_string(string).unwrap_or_default());
}

/// True for the fields that are a value themselves.
const fn is_scalar(number: u32) -> bool {
    matches!(
        number,
        annotation::bool_value..=annotation::legacy_json_value | annotation::string_value_iid
    )
}
