//! The comment line before a record that has details: as JSON, for data that a marker cannot represent.
//!
//! `#@ {"cat":"net","args":{"url":"/x","n":3},"flows":["begin:17"],"cpu_ns":12000}`. Readers skip lines that begin with `#`;
//! ours applies the line to the marker line that follows. The text is safe for all of them: a character that would confuse
//! one ([`crate::sanitize`]) is escaped. A line is at most 12 KB long; arguments beyond [`MAX_BYTES`] are counted in it.

use crate::redact::{Outcome, Redactor};
use std::borrow::Cow;
use tracetee_protocol::json;
use tracetee_protocol::notes;
use tracetee_recorder::details::{Detail, Details, FlowPoint, MAX_TEXT_BYTES, Value};

/// The digits of a whole number.
fn whole(number: i64) -> String {
    let mut text = json::Writer::new();
    text.i64(number);
    text.finish()
}

/// Bytes of a comment after which no argument is added.
const MAX_BYTES: usize = 4000;

/// Appends the comment of these details, as the rules allow; they leave the numbers of a sampler's record, its times. Returns
/// whether the rules changed or dropped something.
pub(crate) fn push_comment(
    out: &mut Vec<u8>,
    details: Details<'_>,
    redactor: &mut Option<Redactor>,
    is_sampler: bool,
) -> bool {
    let mut comment = Comment { out, redactor, is_sampler, is_changed: false };
    comment.push(details);
    comment.is_changed
}

struct Comment<'a> {
    out: &'a mut Vec<u8>,
    redactor: &'a mut Option<Redactor>,
    is_sampler: bool,
    is_changed: bool,
}

impl Comment<'_> {
    fn push(&mut self, details: Details<'_>) {
        let start = self.out.len();
        self.out.extend_from_slice(notes::DETAILS.as_bytes());
        self.out.push(b'{');
        let mut left_out = 0u64;
        let mut flows = Vec::new();
        let mut has_args = false;
        // The arguments in one object, even if other details are between them; then the others.
        for detail in details {
            match detail {
                Detail::Argument(..) if self.out.len() - start > MAX_BYTES => left_out += 1,
                Detail::Argument(key, value) => {
                    let Some(key) = self.allowed(key) else { continue };
                    let before = self.out.len();
                    self.out.extend_from_slice(if has_args { b"," } else { b"\"args\":{" });
                    self.text(&key);
                    self.out.push(b':');
                    if self.value(value) {
                        has_args = true;
                    } else {
                        self.out.truncate(before);
                    }
                }
                Detail::Flow(point, id) => flows.push((point, id)),
                Detail::LeftOut(count) => left_out += u64::from(count),
                Detail::Category(_) | Detail::Cpu(_) | Detail::At(_) => {}
            }
        }
        if has_args {
            self.out.push(b'}');
        }
        for detail in details {
            match detail {
                Detail::Category(name) => {
                    let Some(name) = self.allowed(name) else { continue };
                    self.key("cat");
                    self.text(&name);
                }
                Detail::Cpu(ns) => self.number("cpu_ns", ns),
                Detail::At(ns) => self.number("at_ns", ns),
                _ => {}
            }
        }
        if !flows.is_empty() {
            self.key("flows");
            for (index, (point, id)) in flows.into_iter().enumerate() {
                self.out.extend_from_slice(if index == 0 { b"[\"" } else { b",\"" });
                self.out.extend_from_slice(match point {
                    FlowPoint::Begin => b"begin:",
                    FlowPoint::Step => b"step:",
                    FlowPoint::End => b"end:",
                });
                self.digits(id);
                self.out.push(b'"');
            }
            self.out.push(b']');
        }
        if let Some(real) = details.real {
            self.key("value");
            self.real(real);
        }
        if left_out > 0 {
            self.number("left_out", left_out);
        }
        self.out.extend_from_slice(b"}\n");
    }

    /// A text as the rules leave it; `None` if they drop it.
    fn allowed<'t>(&mut self, text: &'t [u8]) -> Option<Cow<'t, str>> {
        let outcome = self.redactor.as_mut().map(|redactor| redactor.redact(text));
        self.is_changed |= !matches!(outcome, None | Some(Outcome::Kept));
        match outcome {
            None | Some(Outcome::Kept) => Some(String::from_utf8_lossy(text)),
            Some(Outcome::Changed(text)) => Some(Cow::Owned(text.to_string())),
            Some(Outcome::Dropped) => None,
        }
    }

    /// Appends a value; `false` if the rules drop it. A number that they change is a text.
    fn value(&mut self, value: Value<'_>) -> bool {
        let number = match value {
            Value::Text(text) => {
                let Some(text) = self.allowed(text) else { return false };
                self.text(&text);
                return true;
            }
            Value::Bool(is) => {
                self.out.extend_from_slice(if is { b"true" } else { b"false" });
                return true;
            }
            Value::Int(number) => whole(number),
            Value::Real(number) => json::f64_text(number),
        };
        let text = if self.is_sampler {
            Some(Cow::Borrowed(&*number))
        } else {
            self.allowed(number.as_bytes())
        };
        let Some(text) = text else { return false };
        if *text == *number {
            self.out.extend_from_slice(number.as_bytes());
        } else {
            self.text(&text);
        }
        true
    }

    fn key(&mut self, key: &str) {
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
        self.text(key);
        self.out.push(b':');
    }

    fn number(&mut self, key: &str, number: u64) {
        self.key(key);
        self.digits(number);
    }

    fn digits(&mut self, number: u64) {
        crate::line::push_number(self.out, number, 1);
    }

    fn real(&mut self, number: f64) {
        self.out.extend_from_slice(json::f64_text(number).as_bytes());
    }

    /// Appends a JSON string in which nothing ends a line, a script or a field of another reader.
    fn text(&mut self, text: &str) {
        self.out.push(b'"');
        let mut utf8 = [0; 4];
        // A rule may have made it longer.
        let end = text.floor_char_boundary(MAX_TEXT_BYTES);
        for char in text.get(..end).unwrap_or_default().chars() {
            match char {
                '\0'..='\u{1f}' | '"' | '\\' | '[' | '<' | '\u{7f}' | '\u{2028}' | '\u{2029}' => {
                    self.out.extend_from_slice(b"\\u");
                    for shift in [12, 8, 4, 0] {
                        let digit = u32::from(char) >> shift & 15;
                        self.out.extend(b"0123456789abcdef".get(digit as usize));
                    }
                }
                char => self.out.extend_from_slice(char.encode_utf8(&mut utf8).as_bytes()),
            }
        }
        self.out.push(b'"');
    }
}
