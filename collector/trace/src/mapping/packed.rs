//! The form in which a mapping is in memory and on disk: sorted tables of numbers, then the text of all names.
//!
//! A file of this form is mapped into memory and used directly: nothing is parsed, and of a large mapping only the pages
//! with the names of a capture are read. The file may come from an older version or a failing disk, so offsets are checked
//! when they are used, and invalid ones yield no name.

use std::fmt;
use std::sync::Arc;

/// First bytes of a file of this form; the last digits are its version.
const MAGIC: &[u8; 8] = b"ttmap\0\x00\x01";
/// The header: magic, and the numbers of classes, methods and ids.
const HEADER: usize = 8 + 3 * 4;
/// Words of a class: renamed, original, first method, and the one after the last. A name is two words.
const CLASS: usize = 6;
/// Words of a method: renamed, original.
const METHOD: usize = 4;
/// Words of an id: its low and its high half, name.
const ID: usize = 4;

/// A position in the text.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    at: u32,
    bytes: u32,
}

impl Span {
    /// Appends a name to the text.
    pub(super) fn push(text: &mut String, name: &str) -> Self {
        let [at, bytes] =
            [text.len(), name.len()].map(|length| u32::try_from(length).unwrap_or(u32::MAX));
        text.push_str(name);
        Self { at, bytes }
    }

    pub(super) fn of(self, text: &str) -> &str {
        text.get(self.at as usize..self.at as usize + self.bytes as usize).unwrap_or_default()
    }

    /// The span of both of two neighbours.
    pub(super) const fn and(self, next: Self) -> Self {
        Self { at: self.at, bytes: self.bytes + next.bytes }
    }
}

/// A class by its obfuscated name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Class {
    pub(super) renamed: Span,
    pub(super) original: Span,
    /// First method, and the one after the last.
    pub(super) methods: (u32, u32),
}

/// A method by its obfuscated name. Overloads and inlining make several of one name; the first counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Method {
    pub(super) renamed: Span,
    pub(super) original: Span,
}

/// The tables.
#[derive(Clone)]
pub(super) struct Packed {
    bytes: Arc<dyn AsRef<[u8]> + Send + Sync>,
    classes: usize,
    methods: usize,
    ids: usize,
}

impl Packed {
    /// Writes the tables: classes and methods sorted by obfuscated names, ids by number.
    pub(super) fn new(
        text: &str,
        classes: &[Class],
        methods: &[Method],
        ids: &[(u64, Span)],
    ) -> Self {
        let numbers = [classes.len(), methods.len(), ids.len()];
        let words = classes.len() * CLASS + methods.len() * METHOD + ids.len() * ID;
        let mut bytes = Vec::with_capacity(HEADER + 4 * words + text.len());
        bytes.extend_from_slice(MAGIC);
        let mut write = |words: &[u32]| {
            for word in words {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
        };
        write(&numbers.map(|count| u32::try_from(count).unwrap_or(u32::MAX)));
        for Class { renamed, original, methods } in classes {
            write(&[renamed.at, renamed.bytes, original.at, original.bytes, methods.0, methods.1]);
        }
        for Method { renamed, original } in methods {
            write(&[renamed.at, renamed.bytes, original.at, original.bytes]);
        }
        for &(id, name) in ids {
            #[allow(clippy::cast_possible_truncation, reason = "both halves are written")]
            write(&[id as u32, (id >> 32) as u32, name.at, name.bytes]);
        }
        bytes.extend_from_slice(text.as_bytes());
        let [classes, methods, ids] = numbers;
        Self { bytes: Arc::new(bytes), classes, methods, ids }
    }

    /// Takes a file's content; `None` if it is not of this form.
    pub(super) fn open(bytes: Arc<dyn AsRef<[u8]> + Send + Sync>) -> Option<Self> {
        let content = (*bytes).as_ref();
        if content.get(..MAGIC.len())? != MAGIC {
            return None;
        }
        let mut counts = [0; 3];
        for (index, count) in counts.iter_mut().enumerate() {
            *count = word(content, MAGIC.len() + 4 * index)? as usize;
        }
        let [classes, methods, ids] = counts;
        let packed = Self { bytes, classes, methods, ids };
        (packed.text_at() <= packed.bytes().len()).then_some(packed)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        (*self.bytes).as_ref()
    }

    pub(super) const fn classes(&self) -> usize {
        self.classes
    }

    pub(super) const fn ids(&self) -> usize {
        self.ids
    }

    const fn methods_at(&self) -> usize {
        HEADER + 4 * CLASS * self.classes
    }

    const fn ids_at(&self) -> usize {
        self.methods_at() + 4 * METHOD * self.methods
    }

    const fn text_at(&self) -> usize {
        self.ids_at() + 4 * ID * self.ids
    }

    fn words<const N: usize>(&self, at: usize) -> [u32; N] {
        std::array::from_fn(|index| word(self.bytes(), at + 4 * index).unwrap_or(0))
    }

    pub(super) fn class(&self, number: usize) -> Option<Class> {
        let [a, b, c, d, from, to] = self.words(HEADER + 4 * CLASS * number);
        let (renamed, original) = (Span { at: a, bytes: b }, Span { at: c, bytes: d });
        (number < self.classes).then_some(Class { renamed, original, methods: (from, to) })
    }

    pub(super) fn method(&self, number: usize) -> Option<Method> {
        let [a, b, c, d] = self.words(self.methods_at() + 4 * METHOD * number);
        let (renamed, original) = (Span { at: a, bytes: b }, Span { at: c, bytes: d });
        (number < self.methods).then_some(Method { renamed, original })
    }

    pub(super) fn id(&self, number: usize) -> Option<(u64, Span)> {
        let [low, high, at, bytes] = self.words(self.ids_at() + 4 * ID * number);
        (number < self.ids).then_some((u64::from(high) << 32 | u64::from(low), Span { at, bytes }))
    }

    /// Returns a name of the text.
    pub(super) fn name(&self, span: Span) -> &str {
        std::str::from_utf8(self.raw_name(span)).unwrap_or_default()
    }

    /// Returns the bytes of a name, by which names are sorted.
    pub(super) fn raw_name(&self, span: Span) -> &[u8] {
        let from = self.text_at() + span.at as usize;
        self.bytes().get(from..from + span.bytes as usize).unwrap_or_default()
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

/// Returns the first of `count` numbers for which `is_before` is false; those for which it is true come first.
pub(super) fn partition_point(count: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut from, mut to) = (0, count);
    while from < to {
        let middle = from + (to - from) / 2;
        if is_before(middle) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    from
}

impl Default for Packed {
    fn default() -> Self {
        Self::new("", &[], &[], &[])
    }
}

impl PartialEq for Packed {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Packed {}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { classes, methods, ids, .. } = self;
        write!(f, "{classes} classes, {methods} methods, {ids} ids")
    }
}
