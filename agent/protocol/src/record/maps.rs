//! The JSON of maps: objects whose members all have one type.

use super::{Json, read};
use crate::json::{Error, Kind, Value, Writer};
use std::collections::BTreeMap;

/// A key of such an object.
pub trait Key: Ord + Sized {
    /// Reads the key; `None` if the text is not a key.
    fn read_key(text: &str) -> Option<Self>;

    /// Writes the key.
    fn write_key(&self, out: &mut Writer);
}

impl Key for String {
    fn read_key(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }

    fn write_key(&self, out: &mut Writer) {
        out.key(self);
    }
}

impl Key for char {
    fn read_key(text: &str) -> Option<Self> {
        let mut chars = text.chars();
        chars.next().filter(|_| chars.as_str().is_empty())
    }

    fn write_key(&self, out: &mut Writer) {
        out.key(self.encode_utf8(&mut [0; 4]));
    }
}

impl<K: Key, T: Json + Default> Json for BTreeMap<K, T> {
    fn read(&mut self, value: Value<'_>) -> Result<(), Error> {
        if value.kind() != Kind::Object {
            return Err(value.expected("an object"));
        }
        self.clear();
        let mut pairs = Vec::new();
        for (key, value) in value.members() {
            let key = K::read_key(&key).ok_or_else(|| value.error("has a key of another kind"))?;
            pairs.push((key, read(value)?));
        }
        self.extend(pairs);
        Ok(())
    }

    fn write(&self, out: &mut Writer) {
        out.begin_object();
        for (key, value) in self {
            key.write_key(out);
            value.write(out);
        }
        out.end_object();
    }
}
