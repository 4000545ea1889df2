//! Names, each kept once: a trace of a million slices has some thousand of them.

use crate::seeded::Seeded;
use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;

/// A name of a trace. The default is not a name, the empty string.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct NameId(u32);

impl NameId {
    /// No name.
    pub const NONE: Self = Self(0);

    /// Returns the index of the name.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// The names of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    texts: Vec<Arc<str>>,
    ids: HashMap<Arc<str>, NameId, Seeded>,
    bytes: usize,
}

impl Default for Names {
    fn default() -> Self {
        let none: Arc<str> = Arc::from("");
        let mut ids = HashMap::<Arc<str>, NameId, Seeded>::default();
        ids.insert(Arc::clone(&none), NameId::NONE);
        Self { texts: vec![none], ids, bytes: 0 }
    }
}

/// Some of a trace's names.
#[derive(Debug, Clone)]
pub struct NameSet {
    /// Indexed by the name's number.
    is_in: Vec<bool>,
    is_empty: bool,
}

impl NameSet {
    /// True if the name is one of them.
    #[must_use]
    pub fn has(&self, id: NameId) -> bool {
        self.is_in.get(id.0 as usize).is_some_and(|&is_in| is_in)
    }

    /// True if the trace has none of them.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.is_empty
    }
}

impl Names {
    /// Returns the id of a name, which is added if it is new; invalid UTF-8 becomes U+FFFD.
    pub fn id(&mut self, name: &[u8]) -> NameId {
        let name = String::from_utf8_lossy(name);
        if let Some(&id) = self.ids.get(&*name) {
            return id;
        }
        // A trace with four thousand million different names does not fit into memory.
        let id = NameId(u32::try_from(self.texts.len()).unwrap_or(u32::MAX));
        let text: Arc<str> = name.into();
        self.bytes += text.len();
        self.texts.push(Arc::clone(&text));
        self.ids.insert(text, id);
        id
    }

    /// Returns the name with an id of this trace.
    #[must_use]
    pub fn text(&self, id: NameId) -> &str {
        self.texts.get(id.0 as usize).map_or("", |text| text)
    }

    /// Replaces names for which `change` returns another one.
    pub fn change(&mut self, change: impl Fn(&str) -> Option<String>) {
        for (id, text) in (0..).map(NameId).zip(&mut self.texts).skip(1) {
            if let Some(new) = change(text) {
                *text = new.into();
                self.bytes += text.len();
                self.ids.entry(Arc::clone(text)).or_insert(id);
            }
        }
    }

    /// Returns the names that satisfy a condition, each of which is examined once: analyses visit slices many times.
    #[must_use]
    pub fn select(&self, is_selected: impl Fn(&str) -> bool) -> NameSet {
        let is_in: Vec<bool> = self.texts.iter().map(|text| is_selected(text)).collect();
        NameSet { is_empty: !is_in.contains(&true), is_in }
    }

    /// Returns the size of all names in bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Iterates over names and ids in the order of their first use; the first is not a name.
    pub fn iter(&self) -> impl Iterator<Item = (NameId, &str)> {
        (0..).zip(&self.texts).map(|(number, text)| (NameId(number), &**text))
    }
}
