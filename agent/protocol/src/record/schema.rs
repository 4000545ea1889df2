//! JSON schemas, made of the same tables that documents are read by.
//!
//! For tests and documentation: the agent never calls this, so the library does not contain it.

use crate::json::{Kind, Limits, Tree, Value, Writer};
use crate::record::{Json, to_json};
use std::fmt::{Display, Write as _};
use std::ops::RangeInclusive;

/// The schema of a document, indented.
pub fn document<T: Json>(title: &str) -> String {
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
pub struct Schema {
    types: Vec<(&'static str, String)>,
}

impl Schema {
    /// A struct.
    pub fn object(
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
    pub fn one_of(
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
    pub fn or_null(inner: String) -> String {
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
pub struct Fields<'a> {
    schema: &'a mut Schema,
    members: Vec<String>,
    /// The names of the fields that must be there, as JSON.
    required: Vec<String>,
}

impl Fields<'_> {
    /// Adds a field.
    pub fn field<T: Json>(&mut self, name: &str, doc: &str, default: &T) -> Field<'_> {
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
pub struct Field<'a> {
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
    pub fn required(mut self) -> Self {
        self.required.push(self.name.clone());
        self.default = None;
        self
    }

    /// The range of a number.
    #[must_use]
    pub fn range(mut self, range: &RangeInclusive<impl Display>) -> Self {
        let lowest = self.text.find(r#","minimum":0"#);
        if let Some(at) = lowest {
            self.text.replace_range(at..at + r#","minimum":0"#.len(), "");
        }
        let _ = write!(self.text, r#","minimum":{},"maximum":{}"#, range.start(), range.end());
        self
    }

    /// The number of entries of a list.
    #[must_use]
    pub fn count(mut self, range: &RangeInclusive<usize>) -> Self {
        let _ = write!(self.text, r#","minItems":{},"maxItems":{}"#, range.start(), range.end());
        self
    }

    /// Adds the field to its struct.
    pub fn end(self) {
        let default = self.default.map_or_else(String::new, |json| format!(r#","default":{json}"#));
        self.members.push(format!("{}:{{{}{default}}}", self.name, self.text));
    }
}

/// The variants of an enum.
#[derive(Debug)]
pub struct Choices<'a> {
    schema: &'a mut Schema,
    choices: Vec<String>,
}

impl Choices<'_> {
    /// A text.
    pub fn word(&mut self, word: &str, doc: &str) {
        let about = quoted(doc);
        self.choices.push(format!(r#"{{"description":{about},"type":"string","const":"{word}"}}"#));
    }

    /// An object with one member.
    pub fn object<T: Json>(&mut self, word: &str, doc: &str) {
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
