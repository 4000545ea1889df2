//! The writer: compact JSON into one string.
//!
//! Commas are put by looking at the last byte: after `{`, `[` and `:` none is due. The caller keeps
//! the order of keys, values and ends.

use super::Decimal;

/// JSON that grows.
#[derive(Debug, Clone, Default)]
pub struct Writer {
    text: String,
}

impl Writer {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self { text: String::new() }
    }

    /// The text.
    pub fn finish(self) -> String {
        self.text
    }

    fn comma(&mut self) {
        if !matches!(self.text.as_bytes().last(), None | Some(b'{' | b'[' | b':')) {
            self.text.push(',');
        }
    }

    fn put(&mut self, text: &str) -> &mut Self {
        self.comma();
        self.text.push_str(text);
        self
    }

    /// Begins an object.
    pub fn begin_object(&mut self) -> &mut Self {
        self.put("{")
    }

    /// Ends it.
    pub fn end_object(&mut self) -> &mut Self {
        self.text.push('}');
        self
    }

    /// Begins an array.
    pub fn begin_array(&mut self) -> &mut Self {
        self.put("[")
    }

    /// Ends it.
    pub fn end_array(&mut self) -> &mut Self {
        self.text.push(']');
        self
    }

    /// The key of the value that follows.
    pub fn key(&mut self, key: &str) -> &mut Self {
        self.text(key);
        self.text.push(':');
        self
    }

    /// A text.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.comma();
        self.text.push('"');
        for char in text.chars() {
            match char {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                '\n' => self.text.push_str("\\n"),
                '\r' => self.text.push_str("\\r"),
                '\t' => self.text.push_str("\\t"),
                '\0'..='\u{1f}' => {
                    self.text.push_str(if char < '\u{10}' { "\\u000" } else { "\\u001" });
                    self.text.push(char::from_digit(u32::from(char) & 15, 16).unwrap_or('0'));
                }
                _ => self.text.push(char),
            }
        }
        self.text.push('"');
        self
    }

    /// A whole number from 0.
    pub fn u64(&mut self, number: u64) -> &mut Self {
        self.comma();
        push_u64(&mut self.text, number);
        self
    }

    /// A whole number.
    pub fn i64(&mut self, number: i64) -> &mut Self {
        self.comma();
        if number < 0 {
            self.text.push('-');
        }
        push_u64(&mut self.text, number.unsigned_abs());
        self
    }

    /// A number.
    pub fn decimal(&mut self, number: Decimal) -> &mut Self {
        self.put(&number.text(None))
    }

    /// `true` or `false`.
    pub fn bool(&mut self, is: bool) -> &mut Self {
        self.put(if is { "true" } else { "false" })
    }

    /// `null`.
    pub fn null(&mut self) -> &mut Self {
        self.put("null")
    }

    /// A value that is JSON already, such as [`super::Value::raw`].
    pub fn raw(&mut self, json: &str) -> &mut Self {
        self.put(json)
    }
}

/// The text in quotes, as a JSON string. For messages: `{:?}` prints nothing in the library that an app loads.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut out = Writer::new();
    out.text(text);
    out.finish()
}

/// Appends decimal digits, without the machinery of `format!`.
pub(crate) fn push_u64(text: &mut String, mut number: u64) {
    let mut digits = [0u8; 20];
    let mut from = digits.len();
    loop {
        from -= 1;
        if let Some(digit) = digits.get_mut(from) {
            *digit = b'0' + u8::try_from(number % 10).unwrap_or(0);
        }
        number /= 10;
        if number == 0 {
            break;
        }
    }
    text.extend(digits.iter().skip(from).copied().map(char::from));
}
