//! Restores obfuscated names: from R8's and ProGuard's `mapping.txt`, or Matrix's and our instrumenter's method ids.
//!
//! A file is read line by line; the stored data is limited, because a collector accepts mappings from the network. `classes`
//! has the names of R8, `methods` the ids, both in tables (`packed`) that may be in a file; `text` restores the names in a
//! trace's text.

mod classes;
mod methods;
mod packed;
mod text;

use crate::model::Trace;
use crate::quoted;
use classes::{Classes, ClassesBuilder};
use methods::{Methods, MethodsBuilder};
use packed::Packed;
use regex::Regex;
use std::borrow::Cow;
use std::io::{BufRead, Read};
use std::sync::{Arc, LazyLock};

/// Bytes of a line.
const MAX_LINE_BYTES: u64 = 64 * 1024;

/// Limits of a mapping.
struct Limits {
    lines: u64,
    /// Classes, methods and ids that are kept.
    names: usize,
    /// Bytes of their names.
    name_bytes: usize,
}

/// Several times the number in the largest apps.
const LIMITS: Limits = Limits { lines: 20_000_000, names: 4_000_000, name_bytes: 256 << 20 };

/// Qualified names, and descriptors (`La/b/c;`).
#[allow(clippy::unwrap_used, reason = "a constant expression; every test runs it")]
static QUALIFIED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"L[\w$]+(?:/[\w$]+)*;|[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*|\.<(?:cl)?init>)+")
        .unwrap()
});

/// Original names by obfuscated names.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Mapping {
    classes: Classes,
    methods: Methods,
}

impl Mapping {
    /// Parses a file's text, and detects its format from the lines.
    ///
    /// # Errors
    /// The reason, with the line number.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::read(text.as_bytes())
    }

    /// Reads a file to its end; the format shows in its lines.
    ///
    /// # Errors
    /// The reason, with the line number: the line is malformed, a limit is exceeded, or the text cannot be read.
    pub fn read(text: impl BufRead) -> Result<Self, String> {
        Self::read_within(text, &LIMITS)
    }

    fn read_within(mut text: impl BufRead, limits: &Limits) -> Result<Self, String> {
        let (mut classes, mut methods) = (ClassesBuilder::default(), MethodsBuilder::default());
        let (mut buffer, mut number) = (Vec::new(), 0);
        loop {
            buffer.clear();
            let mut limited = text.by_ref().take(MAX_LINE_BYTES);
            let count = limited.read_until(b'\n', &mut buffer);
            number += 1;
            match count.map_err(|error| format!("cannot read line {number}: {error}"))? {
                0 => break,
                count if count as u64 == MAX_LINE_BYTES && !buffer.ends_with(b"\n") => {
                    return Err(format!("line {number} has more than {MAX_LINE_BYTES} bytes"));
                }
                _ if number > limits.lines => {
                    return Err(format!("more than {} lines", limits.lines));
                }
                _ => {}
            }
            let line = std::str::from_utf8(&buffer)
                .map_err(|_| format!("line {number} is not UTF-8"))?
                .trim_end();
            let trimmed = line.trim_start();
            if trimmed.is_empty() || trimmed.starts_with('#') {
                continue;
            }
            if !methods.takes(trimmed) {
                let taken = classes.take(trimmed, line.len() > trimmed.len());
                taken.map_err(|why| format!("line {number} {why}: {}", quoted(trimmed)))?;
            }
            let (names, bytes) = (classes.len() + methods.len(), classes.bytes() + methods.bytes());
            if names > limits.names {
                return Err(format!("more than {} classes and methods", limits.names));
            }
            if bytes > limits.name_bytes {
                return Err(format!("its names have more than {} bytes", limits.name_bytes));
            }
        }
        Ok(Self { classes: classes.finish(), methods: methods.finish() })
    }

    /// True if the mapping has names of R8.
    #[must_use]
    pub fn has_classes(&self) -> bool {
        self.classes.0.classes() > 0
    }

    /// True if the mapping has method ids.
    #[must_use]
    pub fn has_methods(&self) -> bool {
        self.methods.0.ids() > 0
    }

    /// Returns the names of R8, or if there are none, the method ids, in the form that [`Mapping::open`] takes: sorted,
    /// to be used from a file that is mapped into memory.
    #[must_use]
    pub fn packed(&self) -> &[u8] {
        if self.has_classes() { self.classes.0.bytes() } else { self.methods.0.bytes() }
    }

    /// Uses a file's content made by [`Mapping::packed`], without reading it; `None` if it does not have this version.
    #[must_use]
    pub fn open(content: Arc<dyn AsRef<[u8]> + Send + Sync>) -> Option<Self> {
        let packed = Packed::open(content)?;
        Some(match packed.ids() {
            0 => Self { classes: Classes(packed), methods: Methods::default() },
            _ => Self { classes: Classes::default(), methods: Methods(packed) },
        })
    }

    /// Takes the names of R8, or the method ids, from another mapping if this one has none.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let [has_classes, has_methods] = [self.has_classes(), self.has_methods()];
        let classes = if has_classes { self.classes } else { other.classes };
        let methods = if has_methods { self.methods } else { other.methods };
        Self { classes, methods }
    }

    /// Returns a name as in the source code. Names that are not in the mapping stay unchanged.
    #[must_use]
    pub fn apply<'a>(&self, name: &'a str) -> Cow<'a, str> {
        if let Some(method) = name.parse().ok().and_then(|id| self.methods.get(id)) {
            return Cow::Owned(method.to_owned());
        }
        if !self.has_classes() {
            return Cow::Borrowed(name);
        }
        QUALIFIED.replace_all(name, |found: &regex::Captures<'_>| {
            let text = found.get(0).map_or("", |text| text.as_str());
            self.classes.original(text).unwrap_or_else(|| text.to_owned())
        })
    }

    /// Returns the name in the source code of a name that is another one there.
    #[must_use]
    pub fn renamed(&self, name: &str) -> Option<String> {
        match self.apply(name) {
            Cow::Owned(new) if new != name => Some(new),
            _ => None,
        }
    }

    /// Restores the names of a trace.
    pub fn apply_to(&self, trace: &mut Trace) {
        trace.names.change(|name| self.renamed(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const R8: &str = "# compiler: R8\n\
        com.example.feed.Binder -> a.b:\n    int count -> a\n    1:5:void bind(int):10:14 -> a\n\
        \u{20}   6:6:com.example.Other.inlined():3:3 -> b\n    6:6:void outer():4 -> b\n\
        com.example.Feed$Row -> c:\n    void draw() -> d\n";

    #[test]
    fn classes_and_methods_get_their_names_back() {
        let mapping = Mapping::parse(R8).unwrap();
        for (name, expected) in [
            ("a.b.a", "com.example.feed.Binder.bind"),
            (
                "void a.b.a(int)(SourceFile:3)",
                "void com.example.feed.Binder.bind(int)(SourceFile:3)",
            ),
            ("VerifyClass a.b", "VerifyClass com.example.feed.Binder"),
            ("La/b;", "Lcom/example/feed/Binder;"),
            ("Lc;", "Lcom/example/Feed$Row;"),
            ("c.d", "com.example.Feed$Row.d".replace(".d", ".draw").as_str()),
            ("a.b.<init>", "com.example.feed.Binder.<init>"),
            ("a.b.z", "com.example.feed.Binder.z"),
            ("b.a", "b.a"),
            ("nothing of it", "nothing of it"),
        ] {
            assert_eq!(mapping.apply(name), expected, "{name}");
        }
    }

    #[test]
    fn matrix_ids_become_methods_and_others_stay() {
        let mapping =
            Mapping::parse("1,1,com.example.Feed bind (I)V\n22,4098,com.example.Feed <init> ()V\n")
                .unwrap();
        for (name, expected) in [
            ("1", "com.example.Feed.bind"),
            ("22", "com.example.Feed.<init>"),
            ("3", "3"),
            ("1 x", "1 x"),
        ] {
            assert_eq!(mapping.apply(name), expected);
        }
    }

    #[test]
    fn a_file_that_is_no_mapping_is_refused_with_its_line() {
        for (text, error) in [
            ("a.b -> c:\nnonsense", "line 2 is not a line of R8 or Matrix: \"nonsense\""),
            ("  void a() -> b", "line 1 has a member of no class: \"void a() -> b\""),
            ("a.b -> c", "line 1 has a class without its colon: \"a.b -> c\""),
        ] {
            assert_eq!(Mapping::parse(text).unwrap_err(), error);
        }
    }

    #[test]
    fn a_packed_mapping_is_the_same_and_damage_ends_nothing() {
        for text in [R8, "7,1,com.example.Row draw ()V\n4294967297,1,com.example.Row big ()V\n"] {
            let mapping = Mapping::parse(text).unwrap();
            let packed = mapping.packed().to_vec();
            assert_eq!(Mapping::open(Arc::new(packed.clone())).unwrap(), mapping);
            assert_eq!(Mapping::open(Arc::new(packed[..packed.len() / 4].to_vec())), None);
            for index in 0..packed.len() {
                for value in [0, 1, 0x7f, 0x80, 0xff] {
                    let mut damaged = packed.clone();
                    damaged[index] = value;
                    let Some(mapping) = Mapping::open(Arc::new(damaged)) else { continue };
                    for name in ["a.b.a", "La/b;", "c.d", "7", "4294967297", "a.b.z"] {
                        let _ = mapping.apply(name);
                    }
                }
            }
        }
        assert_eq!(Mapping::parse("4294967297,1,a b ()V").unwrap().apply("4294967297"), "a.b");
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_too_much_for_it(text in "( |\n|[a-c.]{1,4}| -> |:|\\(|\\)|,|[0-9]){0,30}") {
            if let Ok(mapping) = Mapping::parse(&text) {
                let _ = mapping.apply(&text);
            }
        }
    }

    #[test]
    fn limits_and_bytes_that_are_no_text_are_refused_with_the_line() {
        let error = |bytes: &[u8]| Mapping::read(bytes).unwrap_err();
        let long = "a".repeat(usize::try_from(MAX_LINE_BYTES).unwrap());
        assert_eq!(error(format!("\n# {long}").as_bytes()), "line 2 has more than 65536 bytes");
        assert_eq!(error(b"\n\n\xff\xfe"), "line 3 is not UTF-8");
        let few = Limits { lines: 5, names: 3, name_bytes: 40 };
        let error = |text: &str| Mapping::read_within(text.as_bytes(), &few).unwrap_err();
        assert_eq!(error("1,1,a\n2,1,a\n3,1,a\n4,1,a\n"), "more than 3 classes and methods");
        assert_eq!(
            error("A -> a:\n  b() -> c\n  b() -> d\n  b() -> e\n"),
            "more than 3 classes and methods"
        );
        assert_eq!(error("\n\n\n\n\n\n"), "more than 5 lines");
        let long = "a".repeat(41);
        for text in [
            format!("A -> {long}:\n"),
            format!("A -> a:\n {long}() -> b\n"),
            format!("1,1,{long}\n"),
        ] {
            assert_eq!(error(&text), "its names have more than 40 bytes");
        }
    }

    #[test]
    fn two_mappings_complete_each_other() {
        let ids = || Mapping::parse("7,1,com.example.Row draw ()V\n").unwrap();
        for both in [Mapping::parse(R8).unwrap().or(ids()), ids().or(Mapping::parse(R8).unwrap())] {
            assert!(both.has_classes() && both.has_methods());
            assert_eq!(both.apply("7"), "com.example.Row.draw");
            assert_eq!(both.apply("a.b.a"), "com.example.feed.Binder.bind");
        }
    }

    proptest::proptest! {
        /// The first method of a name counts in a class, the last class of a name in the file.
        #[test]
        fn sorted_names_are_found_as_in_maps(
            file in proptest::collection::vec(
                ("[a-c]\\.[a-c]", proptest::collection::vec("[a-c]{1,2}", 0..6)), 0..8)
        ) {
            use std::collections::HashMap;
            let (mut text, mut known) = (String::new(), HashMap::new());
            for (number, (class, methods)) in file.iter().enumerate() {
                text += &format!("Class{number} -> {class}:\n");
                let mut of_class = HashMap::new();
                for (index, method) in methods.iter().enumerate() {
                    text += &format!("    void method{index}() -> {method}\n");
                    of_class.entry(method).or_insert(index);
                }
                known.insert(class, (number, of_class));
            }
            let mapping = Mapping::parse(&text).unwrap();
            for first in ["a", "b", "c"] {
                for second in ["a", "b", "c"] {
                    let class = format!("{first}.{second}");
                    let found = known.get(&class);
                    let expected = found.map_or(class.clone(), |(number, _)| format!("Class{number}"));
                    proptest::prop_assert_eq!(&*mapping.apply(&class), &*expected);
                    for method in ["a", "ab", "c", "cc"] {
                        let index = found.and_then(|(_, methods)| methods.get(&method.to_owned()));
                        let method_name = index.map_or(method.to_owned(), |index| format!("method{index}"));
                        let name = format!("{class}.{method}");
                        proptest::prop_assert_eq!(&*mapping.apply(&name), &format!("{expected}.{method_name}"));
                    }
                }
            }
        }
    }
}
