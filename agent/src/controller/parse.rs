//! From bytes to a document: what is wrong is named by its path, what is unknown is warned about.
//!
//! Nothing of a document that is wrong anywhere is used.

use super::check::{MAX_DOCUMENT_BYTES, Wrong};
use super::document::Document;
use super::locate::path_at;
use serde_json::Value;

/// A document that may be used, and what in it is not known here.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Parsed {
    pub(crate) document: Document,
    /// `windows[0].colour: unknown, ignored`, …
    pub(crate) warnings: Vec<String>,
}

/// How many unknown fields are named.
const MAX_WARNINGS: usize = 16;

/// Reads a document.
pub(crate) fn parse(bytes: &[u8]) -> Result<Parsed, Wrong> {
    let whole = |reason: String| Wrong { path: "document".to_owned(), reason };
    if bytes.len() > MAX_DOCUMENT_BYTES {
        return Err(whole(format!("{} bytes, at most {MAX_DOCUMENT_BYTES}", bytes.len())));
    }
    let value: Value = serde_json::from_slice(bytes).map_err(|error| whole(error.to_string()))?;
    for field in ["schema", "seq"] {
        if value.get(field).is_none() {
            return Err(Wrong { path: field.to_owned(), reason: "is missing".to_owned() });
        }
    }
    // From the text: a field that is there twice would be lost in the value.
    let document: Document = serde_json::from_slice(bytes).map_err(|error| {
        let reason = error.to_string();
        let path = named(path_at(bytes, error.line(), error.column()), &reason);
        Wrong { path, reason }
    })?;
    document.check()?;
    let mut warnings = Vec::new();
    // What the types know comes back; the rest was not known.
    if let Ok(known) = serde_json::to_value(&document) {
        find_unknown(&value, &known, "", &mut warnings);
    }
    Ok(Parsed { document, warnings })
}

/// A field that is there twice is noticed while the field before it is the last one known.
fn named(path: String, reason: &str) -> String {
    let twice = reason.strip_prefix("duplicate field `").and_then(|rest| rest.split('`').next());
    match twice {
        Some(field) => match path.rsplit_once('.') {
            Some((parent, _)) => format!("{parent}.{field}"),
            None => field.to_owned(),
        },
        None if path.is_empty() => "document".to_owned(),
        None => path,
    }
}

fn find_unknown(given: &Value, known: &Value, path: &str, warnings: &mut Vec<String>) {
    match (given, known) {
        (Value::Object(given), Value::Object(known)) => {
            for (name, value) in given {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                match known.get(name) {
                    Some(known) => find_unknown(value, known, &path, warnings),
                    None if warnings.len() < MAX_WARNINGS => {
                        warnings.push(format!("{path}: unknown, ignored"));
                    }
                    None => {}
                }
            }
        }
        (Value::Array(given), Value::Array(known)) => {
            for (index, (given, known)) in given.iter().zip(known).enumerate() {
                find_unknown(given, known, &format!("{path}[{index}]"), warnings);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        let wrong = parse(text.as_bytes()).unwrap_err();
        format!("{}: {}", wrong.path, wrong.reason)
    }

    #[test]
    fn an_empty_document_is_the_default_and_needs_no_more_than_its_number() {
        let parsed = parse(br#"{"schema": 1, "seq": 3}"#).unwrap();
        assert_eq!(parsed.document, Document { schema: 1, seq: 3, ..Document::default() });
        assert!(parsed.warnings.is_empty());
    }

    #[test]
    fn unknown_fields_are_named_and_ignored() {
        let text = r#"{"schema": 1, "seq": 3, "colour": 1, "windows": [{"id": "a", "shape": 2,
            "opens": {"triggers": {"any": [{"jank": {"size": 3}}], "sound": 4}}}]}"#;
        let mut warnings = parse(text.as_bytes()).unwrap().warnings;
        warnings.sort();
        let names = [
            "colour",
            "windows[0].opens.triggers.any[0].jank.size",
            "windows[0].opens.triggers.sound",
            "windows[0].shape",
        ];
        assert_eq!(warnings, names.map(|name| format!("{name}: unknown, ignored")));
    }

    #[test]
    fn what_is_wrong_is_named_by_its_path() {
        let in_window = |fields: &str| {
            format!(r#"{{"schema": 1, "seq": 1, "windows": [{{"id": "a", {fields}}}]}}"#)
        };
        for (text, path) in [
            ("[]".to_owned(), "schema: is missing"),
            (r#"{"schema": 1"#.to_owned(), "document: EOF"),
            (r#"{"schema": 1}"#.to_owned(), "seq: is missing"),
            (r#"{"schema": 1, "seq": 4, "": 1, "seq": 4}"#.to_owned(), "seq: duplicate field"),
            (r#"{"schema": 1, "seq": 4, "x": 1, "seq": 4}"#.to_owned(), "seq: duplicate field"),
            (
                r#"{"schema": 1, "seq": 4, "kill": {"on": true, "x": 1, "on": true}}"#.to_owned(),
                "kill.on: duplicate field",
            ),
            (r#"{"schema": 2, "seq": 1}"#.to_owned(), "schema: 2 is not 1"),
            (r#"{"schema": 1, "seq": -1}"#.to_owned(), "seq: invalid value: integer `-1`"),
            (r#"{"schema": 1, "seq": 1, "kill": {"on": 1}}"#.to_owned(), "kill.on: invalid type"),
            (in_window(r#""max_s": 0"#), "windows[0].max_s: 0 is not over 0"),
            (in_window(r#""max_s": 3601"#), "windows[0].max_s: 3601"),
            (in_window(r#""max_s": "x""#), "windows[0].max_s: invalid type: string"),
            (in_window(r#""tags": ["veiw"]"#), "windows[0].tags: configuration: tags: unknown"),
            (in_window(r#""opens": "now""#), "windows[0].opens: unknown variant `now`"),
            (
                in_window(r#""opens": {"schedule": {"every_s": 5}}"#),
                "windows[0].opens.schedule.every_s: 5 is not from 60",
            ),
            (in_window(r#""opens": {"section": {}}"#), "windows[0].opens.section.from: must have"),
            (
                in_window(r#""opens": {"triggers": {}}"#),
                "windows[0].opens.triggers.any (how many): 0 is not from 1",
            ),
            (
                in_window(r#""opens": {"triggers": {"any": [{"blocked": {"over_s": 0}}]}}"#),
                "windows[0].opens.triggers.any[0].blocked.over_s: 0 is not from 0.1",
            ),
            (
                in_window(r#""opens": {"triggers": {"any": [{"custom": {}}]}}"#),
                "windows[0].opens.triggers.any[0].custom.name: \"\" is not",
            ),
            (in_window(r#""id": "a""#), "windows[0].id: duplicate field `id`"),
            (
                r#"{"schema": 1, "seq": 1, "windows": [{"id": "../x"}]}"#.to_owned(),
                "windows[0].id: \"../x\" is not",
            ),
            (
                r#"{"schema": 1, "seq": 1, "windows": [{"id": "a"}, {"id": "a"}]}"#.to_owned(),
                "windows[1].id: \"a\" is taken",
            ),
            (in_window(r#""recorder": {"mode": "systrace"}"#), "windows[0].recorder.mode"),
            (
                r#"{"schema": 1, "seq": 1, "sampling": {"percent": 101}}"#.to_owned(),
                "sampling.percent: 101 is not from 0 to 100",
            ),
            (
                r#"{"schema": 1, "seq": 1, "redaction": {"rules": [{"pattern": "("}]}}"#.to_owned(),
                "redaction.rules[0]: pattern \"(\"",
            ),
        ] {
            let said = wrong(&text);
            assert!(said.starts_with(path), "{text}\n{said}\n{path}");
        }
    }

    #[test]
    fn a_document_that_is_too_long_is_refused_unread() {
        let said = wrong(&" ".repeat(MAX_DOCUMENT_BYTES + 1));
        assert!(said.contains("at most 262144"), "{said}");
    }

    #[test]
    fn the_schema_that_is_checked_in_is_that_of_the_types() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/schema/remote-config.schema.json");
        let mut text = serde_json::to_string_pretty(&schemars::schema_for!(Document)).unwrap();
        text.push('\n');
        if std::env::var_os("TRACETEE_BLESS").is_some() {
            std::fs::create_dir_all(std::path::Path::new(path).parent().unwrap()).unwrap();
            std::fs::write(path, &text).unwrap();
        }
        let checked_in = std::fs::read_to_string(path).unwrap_or_default();
        assert!(text == checked_in, "{path} is stale: run the test with TRACETEE_BLESS=1");
    }
}
