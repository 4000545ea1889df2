//! JSON schemas, made of the same tables that documents are read by: a test compares the one that is checked in.

use crate::json::{Decimal, Kind, Limits, Tree, Value, Writer};
use crate::record::{Json, Key, RawJson, to_json};
use crate::remote_config::Elsewhere;
use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// A type that has a schema.
pub(crate) trait Described: Json {
    /// The members of the schema, without the braces.
    fn schema(schema: &mut Schema) -> String
    where
        Self: Sized;
}

/// Describes what `record!`, `words!` and `choice!` declare.
#[macro_export]
macro_rules! described {
    (struct $name:ident [$($about:literal)*]
        $({$field:ident $(= $json:literal)?: $type:ty [$($doc:literal)*] $($limit:ident($($arg:tt)*))*})*
    ) => {
        impl $crate::record::schema_tests::Described for $name {
            fn schema(schema: &mut $crate::record::schema_tests::Schema) -> String {
                schema.object(stringify!($name), concat!($($about, "\n"),*), |fields| {
                    let default = Self::default();
                    $(
                        let field = fields.field::<$type>(
                            $crate::record!(@name $field $($json)?),
                            concat!($($doc, "\n"),*),
                            &default.$field,
                        );
                        $(let field = $crate::described!(@limit $limit field, $($arg)*);)*
                        field.end();
                    )*
                })
            }
        }
    };
    (enum $name:ident [$($about:literal)*]
        $({$word:literal [$($doc:literal)*] $($payload:ty)?})*
    ) => {
        impl $crate::record::schema_tests::Described for $name {
            fn schema(schema: &mut $crate::record::schema_tests::Schema) -> String {
                schema.one_of(stringify!($name), concat!($($about, "\n"),*), |choices| {
                    $($crate::described!(@choice choices, $word, concat!($($doc, "\n"),*) $(, $payload)?);)*
                })
            }
        }
    };
    (@limit within $field:ident, $range:expr) => { $field.range(&$range) };
    (@limit required $field:ident,) => { $field.required() };
    (@limit count $field:ident, $range:expr) => { $field.count(&$range) };
    (@limit $other:ident $field:ident, $($rest:tt)*) => { $field };
    (@choice $choices:ident, $word:literal, $doc:expr) => { $choices.word($word, $doc) };
    (@choice $choices:ident, $word:literal, $doc:expr, $payload:ty) => {
        $choices.object::<$payload>($word, $doc)
    };
}

/// Describes types that are not made of others.
macro_rules! plain {
    ($($type:ty: $schema:literal)*) => {$(
        impl Described for $type {
            fn schema(_: &mut Schema) -> String {
                $schema.to_owned()
            }
        }
    )*};
}

plain! {
    u8: r#""type":"integer","format":"uint8","minimum":0"#
    u16: r#""type":"integer","format":"uint16","minimum":0"#
    u32: r#""type":"integer","format":"uint32","minimum":0"#
    u64: r#""type":"integer","format":"uint64","minimum":0"#
    usize: r#""type":"integer","format":"uint","minimum":0"#
    i64: r#""type":"integer","format":"int64""#
    i32: r#""type":"integer","format":"int32""#
    Decimal: r#""type":"number""#
    bool: r#""type":"boolean""#
    String: r#""type":"string""#
    PathBuf: r#""type":"string""#
    RawJson: r#""type":["object","array","string","number","boolean","null"]"#
}

impl<T: Described + Default> Described for Option<T> {
    fn schema(schema: &mut Schema) -> String {
        Schema::or_null(T::schema(schema))
    }
}

impl<T: Described + Default> Described for Vec<T> {
    fn schema(schema: &mut Schema) -> String {
        let item = T::schema(schema);
        format!(r#""type":"array","items":{{{item}}}"#)
    }
}

impl<K: Key, T: Described + Default> Described for BTreeMap<K, T> {
    fn schema(schema: &mut Schema) -> String {
        let value = T::schema(schema);
        format!(r#""type":"object","additionalProperties":{{{value}}}"#)
    }
}

impl<T: Described + Default> Described for Elsewhere<T> {
    fn schema(schema: &mut Schema) -> String {
        T::schema(schema)
    }
}

/// A pair is an array of two.
impl<A: Described + Default, B: Described + Default> Described for (A, B) {
    fn schema(schema: &mut Schema) -> String {
        let (first, second) = (A::schema(schema), B::schema(schema));
        format!(
            r#""type":"array","minItems":2,"maxItems":2,"prefixItems":[{{{first}}},{{{second}}}]"#
        )
    }
}

/// The schema of a document, indented.
pub(crate) fn document<T: Described>(title: &str) -> String {
    let mut schema = Schema::default();
    let root = T::schema(&mut schema);
    let root_name = root.strip_prefix(REFERENCE).and_then(|rest| rest.strip_suffix('"'));
    let mut types = std::mem::take(&mut schema.types);
    let mut out = Writer::new();
    out.begin_object();
    out.key("$schema").text("https://json-schema.org/draft/2020-12/schema");
    out.key("title").text(title);
    let root_at = types.iter().position(|(name, _)| Some(*name) == root_name);
    let members = root_at.map_or(root.clone(), |at| types.remove(at).1);
    let mut text = out.finish();
    text.push(',');
    text.push_str(&members);
    text.push_str(r#","$defs":{"#);
    types.sort();
    for (index, (name, members)) in types.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(text, "{comma}\"{name}\":{{{members}}}");
    }
    text.push_str("}}");
    let mut indented = String::new();
    if let Ok(tree) = Tree::parse(text.as_bytes(), Limits::DEFAULT) {
        indent(tree.root(), 0, &mut indented);
        indented.push('\n');
    }
    indented
}

const REFERENCE: &str = r##""$ref":"#/$defs/"##;

/// The types that a schema is made of. Each type's schema is the members of an object, without the
/// braces, so that others can be added.
#[derive(Debug, Default)]
pub(crate) struct Schema {
    types: Vec<(&'static str, String)>,
}

impl Schema {
    /// A struct.
    pub(crate) fn object(
        &mut self,
        name: &'static str,
        about: &str,
        describe: impl FnOnce(&mut Fields<'_>),
    ) -> String {
        self.add(name, |schema| {
            let mut fields = Fields { schema, members: Vec::new(), required: Vec::new() };
            describe(&mut fields);
            let (members, required) = (fields.members.join(","), fields.required.join(","));
            let about = quoted(about);
            let object =
                format!(r#""description":{about},"type":"object","properties":{{{members}}}"#);
            if required.is_empty() {
                object
            } else {
                format!(r#"{object},"required":[{required}]"#)
            }
        })
    }

    /// An enum.
    pub(crate) fn one_of(
        &mut self,
        name: &'static str,
        about: &str,
        describe: impl FnOnce(&mut Choices<'_>),
    ) -> String {
        self.add(name, |schema| {
            let mut choices = Choices { schema, choices: Vec::new() };
            describe(&mut choices);
            let (about, choices) = (quoted(about), choices.choices.join(","));
            format!(r#""description":{about},"oneOf":[{choices}]"#)
        })
    }

    fn add(&mut self, name: &'static str, describe: impl FnOnce(&mut Self) -> String) -> String {
        if !self.types.iter().any(|(other, _)| *other == name) {
            // First, so that a type that contains itself ends.
            self.types.push((name, String::new()));
            let members = describe(self);
            if let Some((_, known)) = self.types.iter_mut().find(|(other, _)| *other == name) {
                *known = members;
            }
        }
        format!("{REFERENCE}{name}\"")
    }

    /// The schema of what may also be `null`.
    #[must_use]
    pub(crate) fn or_null(inner: String) -> String {
        let typed = inner.strip_prefix(r#""type":""#).and_then(|rest| rest.split_once('"'));
        match typed {
            Some((name, rest)) => format!(r#""type":["{name}","null"]{rest}"#),
            None => format!(r#""anyOf":[{{{inner}}},{{"type":"null"}}]"#),
        }
    }
}

/// The description of a doc comment as JSON.
fn quoted(doc: &str) -> String {
    let words: Vec<_> = doc.split_whitespace().collect();
    let mut out = Writer::new();
    out.text(&words.join(" "));
    out.finish()
}

/// The fields of a struct.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    schema: &'a mut Schema,
    members: Vec<String>,
    /// The names of the fields that must be there, as JSON.
    required: Vec<String>,
}

impl Fields<'_> {
    /// Adds a field.
    pub(crate) fn field<T: Described>(&mut self, name: &str, doc: &str, default: &T) -> Field<'_> {
        let about = quoted(doc);
        let schema = T::schema(self.schema);
        Field {
            members: &mut self.members,
            required: &mut self.required,
            name: to_json(&name.to_owned()),
            text: format!(r#""description":{about},{schema}"#),
            default: Some(to_json(default)),
        }
    }
}

/// A field that is being described.
#[derive(Debug)]
pub(crate) struct Field<'a> {
    members: &'a mut Vec<String>,
    required: &'a mut Vec<String>,
    /// The name, as JSON.
    name: String,
    /// The schema so far.
    text: String,
    /// The value of a field that is missing, as JSON.
    default: Option<String>,
}

impl Field<'_> {
    /// Marks a field that must be there.
    #[must_use]
    pub(crate) fn required(mut self) -> Self {
        self.required.push(self.name.clone());
        self.default = None;
        self
    }

    /// The range of a number.
    #[must_use]
    pub(crate) fn range(mut self, range: &RangeInclusive<impl Display>) -> Self {
        let lowest = self.text.find(r#","minimum":0"#);
        if let Some(at) = lowest {
            self.text.replace_range(at..at + r#","minimum":0"#.len(), "");
        }
        let _ = write!(self.text, r#","minimum":{},"maximum":{}"#, range.start(), range.end());
        self
    }

    /// The number of entries of a list.
    #[must_use]
    pub(crate) fn count(mut self, range: &RangeInclusive<usize>) -> Self {
        let _ = write!(self.text, r#","minItems":{},"maxItems":{}"#, range.start(), range.end());
        self
    }

    /// Adds the field to its struct.
    pub(crate) fn end(self) {
        let default = self.default.map_or_else(String::new, |json| format!(r#","default":{json}"#));
        self.members.push(format!("{}:{{{}{default}}}", self.name, self.text));
    }
}

/// The variants of an enum.
#[derive(Debug)]
pub(crate) struct Choices<'a> {
    schema: &'a mut Schema,
    choices: Vec<String>,
}

impl Choices<'_> {
    /// A text.
    pub(crate) fn word(&mut self, word: &str, doc: &str) {
        let about = quoted(doc);
        self.choices.push(format!(r#"{{"description":{about},"type":"string","const":"{word}"}}"#));
    }

    /// An object with one member.
    pub(crate) fn object<T: Described>(&mut self, word: &str, doc: &str) {
        let (about, schema) = (quoted(doc), T::schema(self.schema));
        self.choices.push(format!(
            r#"{{"description":{about},"type":"object","properties":{{"{word}":{{{schema}}}}},"additionalProperties":false,"required":["{word}"]}}"#
        ));
    }
}

fn indent(value: Value<'_>, depth: usize, out: &mut String) {
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    let (open, close) = match value.kind() {
        Kind::Object => ('{', '}'),
        Kind::Array => ('[', ']'),
        _ => return out.push_str(value.raw()),
    };
    out.push(open);
    let members = value.members().map(|(key, value)| (Some(key), value));
    let children: Vec<_> = members.chain(value.items().map(|item| (None, item))).collect();
    for (index, (key, child)) in children.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        line(out, depth + 1);
        if let Some(key) = key {
            let _ = write!(out, "{}: ", to_json(&key.clone().into_owned()));
        }
        indent(*child, depth + 1, out);
    }
    if !children.is_empty() {
        line(out, depth);
    }
    out.push(close);
}
