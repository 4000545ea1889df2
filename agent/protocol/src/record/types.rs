//! The JSON of the standard library's types.

use super::{Json, Path};
use crate::json::{Decimal, Error, Kind, Limits, Value, Writer};
use std::path::PathBuf;

macro_rules! unsigned {
    ($($type:ty),*) => {$(
        impl Json for $type {
            fn read(&mut self, value: Value<'_>) -> Result<(), Error> {
                let read = read_u64(value, <$type>::MAX as u64)?;
                *self = <$type>::try_from(read).unwrap_or(<$type>::MAX);
                Ok(())
            }

            fn write(&self, out: &mut Writer) {
                out.u64(*self as u64);
            }
        }
    )*};
}

#[allow(clippy::cast_lossless, reason = "one macro for all widths, none above 64 bits")]
mod whole {
    use super::{Error, Json, Value, Writer, read_u64};
    unsigned!(u8, u16, u32, u64, usize);
}

fn read_u64(value: Value<'_>, max: u64) -> Result<u64, Error> {
    match value.u64() {
        Some(number) if number <= max => Ok(number),
        _ => {
            let mut what = "a whole number from 0 to ".to_owned();
            crate::json::push_u64(&mut what, max);
            Err(value.expected(&what))
        }
    }
}

impl Json for i64 {
    fn read(&mut self, value: Value<'_>) -> Result<(), Error> {
        *self = value.i64().ok_or_else(|| value.expected("a whole number"))?;
        Ok(())
    }

    fn write(&self, out: &mut Writer) {
        out.i64(*self);
    }
}

impl Json for i32 {
    fn read(&mut self, value: Value<'_>) -> Result<(), Error> {
        let number = value.i64().and_then(|number| Self::try_from(number).ok());
        *self = number.ok_or_else(|| value.expected("a whole number of 32 bits"))?;
        Ok(())
    }

    fn write(&self, out: &mut Writer) {
        out.i64((*self).into());
    }
}

#[doc(hidden)]
impl Json for Decimal {
    fn read(&mut self, value: Value<'_>) -> Result<(), Error> {
        *self = value.decimal().ok_or_else(|| value.expected("a number"))?;
        Ok(())
    }

    fn write(&self, out: &mut Writer) {
        out.decimal(*self);
    }
}

impl Json for bool {
    fn read(&mut self, value: Value<'_>) -> Result<(), Error> {
        *self = value.bool().ok_or_else(|| value.expected("true or false"))?;
        Ok(())
    }

    fn write(&self, out: &mut Writer) {
        out.bool(*self);
    }
}

fn read_text(value: Value<'_>) -> Result<String, Error> {
    Ok(value.text().ok_or_else(|| value.expected("a text"))?.into_owned())
}

impl Json for String {
    fn read(&mut self, value: Value<'_>) -> Result<(), Error> {
        *self = read_text(value)?;
        Ok(())
    }

    fn write(&self, out: &mut Writer) {
        out.text(self);
    }
}

impl Json for PathBuf {
    fn read(&mut self, value: Value<'_>) -> Result<(), Error> {
        *self = read_text(value)?.into();
        Ok(())
    }

    /// Bytes that are not UTF-8 become U+FFFD.
    fn write(&self, out: &mut Writer) {
        out.text(&self.to_string_lossy());
    }
}

impl<T: Json + Default> Json for Option<T> {
    const HAS_LIMITS: bool = T::HAS_LIMITS;

    fn read(&mut self, value: Value<'_>) -> Result<(), Error> {
        *self = None;
        if value.is_null() { Ok(()) } else { self.insert(T::default()).read(value) }
    }

    fn write(&self, out: &mut Writer) {
        match self {
            Some(value) => value.write(out),
            None => drop(out.null()),
        }
    }

    fn check(&self, path: &mut Path) -> Result<(), Error> {
        self.as_ref().map_or(Ok(()), |value| value.check(path))
    }
}

impl<T: Json + Default> Json for Vec<T> {
    const HAS_LIMITS: bool = T::HAS_LIMITS;

    fn read(&mut self, value: Value<'_>) -> Result<(), Error> {
        if value.kind() != Kind::Array {
            return Err(value.expected("an array"));
        }
        self.clear();
        for item in value.items() {
            let mut read = T::default();
            read.read(item)?;
            self.push(read);
        }
        Ok(())
    }

    fn write(&self, out: &mut Writer) {
        out.begin_array();
        for item in self {
            item.write(out);
        }
        out.end_array();
    }

    fn check(&self, path: &mut Path) -> Result<(), Error> {
        if T::HAS_LIMITS {
            for (index, item) in self.iter().enumerate() {
                let parent = path.enter_index(index);
                item.check(path)?;
                path.leave(parent);
            }
        }
        Ok(())
    }
}

/// A value that is kept as its JSON text, whatever it is; `null` by default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawJson(String);

impl RawJson {
    /// Keeps one JSON value.
    ///
    /// # Errors
    /// [`Error`] if `text` is not one JSON value.
    pub fn parse(text: &str) -> Result<Self, Error> {
        super::parse(text.as_bytes(), Limits::DEFAULT)
    }

    /// The JSON.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for RawJson {
    fn default() -> Self {
        Self("null".to_owned())
    }
}

#[doc(hidden)]
impl Json for RawJson {
    fn read(&mut self, value: Value<'_>) -> Result<(), Error> {
        value.raw().clone_into(&mut self.0);
        Ok(())
    }

    fn write(&self, out: &mut Writer) {
        out.raw(&self.0);
    }
}

/// A pair is an array of two.
impl<A: Json + Default, B: Json + Default> Json for (A, B) {
    fn read(&mut self, value: Value<'_>) -> Result<(), Error> {
        let mut items = value.items();
        match (items.next(), items.next(), items.next()) {
            (Some(first), Some(second), None) => {
                self.0.read(first)?;
                self.1.read(second)
            }
            _ => Err(value.expected("an array of two")),
        }
    }

    fn write(&self, out: &mut Writer) {
        out.begin_array();
        self.0.write(out);
        self.1.write(out);
        out.end_array();
    }
}
