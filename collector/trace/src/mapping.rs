//! Restores obfuscated names: from R8's and ProGuard's `mapping.txt`, or Matrix's method ids.

use crate::model::Trace;
use regex::Regex;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Qualified names, and descriptors (`La/b/c;`).
#[allow(clippy::unwrap_used, reason = "a constant expression; every test runs it")]
static QUALIFIED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"L[\w$]+(?:/[\w$]+)*;|[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*|\.<(?:cl)?init>)+")
        .unwrap()
});

/// Original names by obfuscated names.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Mapping {
    classes: HashMap<String, Class>,
    /// Matrix: a method by its id.
    methods: HashMap<u64, String>,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Class {
    original: String,
    /// Original names of methods; several if overloads and inlining share one.
    methods: HashMap<String, String>,
}

impl Mapping {
    /// Parses a file's text; the format shows in its lines.
    ///
    /// # Errors
    /// The reason, with the line number.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut mapping = Self::default();
        let mut class: Option<(String, Class)> = None;
        for (number, line) in (1..).zip(text.lines()) {
            let trimmed = line.trim();
            if trimmed.is_empty() || trimmed.starts_with('#') {
                continue;
            }
            if mapping.take_matrix(trimmed) {
                continue;
            }
            let Some((original, renamed)) = trimmed.split_once(" -> ") else {
                return Err(format!("line {number} is neither of R8 nor of Matrix: {trimmed:?}"));
            };
            if line.starts_with([' ', '\t']) {
                let Some((_, class)) = &mut class else {
                    return Err(format!("line {number} has a member of no class: {trimmed:?}"));
                };
                if let Some(method) = method_name(original) {
                    let first = class.methods.entry(renamed.to_owned());
                    first.or_insert_with(|| method.to_owned());
                }
            } else {
                let Some(renamed) = renamed.strip_suffix(':') else {
                    return Err(format!(
                        "line {number} has a class without its colon: {trimmed:?}"
                    ));
                };
                mapping.classes.extend(class.take());
                let new = Class { original: original.to_owned(), methods: HashMap::new() };
                class = Some((renamed.to_owned(), new));
            }
        }
        mapping.classes.extend(class);
        Ok(mapping)
    }

    /// `id,access,class method desc`.
    fn take_matrix(&mut self, line: &str) -> bool {
        let mut fields = line.splitn(3, ',');
        let (Some(id), Some(access), Some(method)) = (fields.next(), fields.next(), fields.next())
        else {
            return false;
        };
        let (Ok(id), Ok(_)) = (id.parse::<u64>(), access.parse::<u32>()) else { return false };
        let mut words = method.split(' ');
        let (class, name) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let separator = if name.is_empty() { "" } else { "." };
        self.methods.insert(id, format!("{class}{separator}{name}"));
        true
    }

    /// Returns a name as it is in the source code. Names that the mapping does not contain stay.
    #[must_use]
    pub fn apply<'a>(&self, name: &'a str) -> Cow<'a, str> {
        if let Some(method) = name.parse().ok().and_then(|id: u64| self.methods.get(&id)) {
            return Cow::Owned(method.clone());
        }
        if self.classes.is_empty() {
            return Cow::Borrowed(name);
        }
        QUALIFIED.replace_all(name, |found: &regex::Captures<'_>| {
            let text = found.get(0).map_or("", |text| text.as_str());
            self.original(text).unwrap_or_else(|| text.to_owned())
        })
    }

    /// Restores the names of a trace.
    pub fn apply_to(&self, trace: &mut Trace) {
        trace.names.change(|name| match self.apply(name) {
            Cow::Owned(new) if new != name => Some(new),
            _ => None,
        });
    }

    fn original(&self, name: &str) -> Option<String> {
        if let Some(class) = name.strip_prefix('L').and_then(|name| name.strip_suffix(';')) {
            let class = self.classes.get(&class.replace('/', "."))?;
            return Some(format!("L{};", class.original.replace('.', "/")));
        }
        if let Some(class) = self.classes.get(name) {
            return Some(class.original.clone());
        }
        let (class, method) = name.rsplit_once('.')?;
        let class = self.classes.get(class)?;
        let method = class.methods.get(method).map_or(method, |method| method);
        Some(format!("{}.{method}", class.original))
    }
}

/// The method's name in `1:5:void name(int):10:14`; a field has none.
fn method_name(member: &str) -> Option<&str> {
    let before = member.split('(').next().filter(|before| before.len() < member.len())?;
    let name = before.rsplit([' ', ':']).next()?;
    // An inlined method carries its own class.
    name.rsplit('.').next()
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
    fn what_is_no_mapping_is_said_with_its_line() {
        for (text, error) in [
            ("a.b -> c:\nnonsense", "line 2 is neither of R8 nor of Matrix: \"nonsense\""),
            ("  void a() -> b", "line 1 has a member of no class: \"void a() -> b\""),
            ("a.b -> c", "line 1 has a class without its colon: \"a.b -> c\""),
        ] {
            assert_eq!(Mapping::parse(text).unwrap_err(), error);
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_too_much_for_it(text in "( |\n|[a-c.]{1,4}| -> |:|\\(|\\)|,|[0-9]){0,30}") {
            if let Ok(mapping) = Mapping::parse(&text) {
                let _ = mapping.apply(&text);
            }
        }
    }
}
