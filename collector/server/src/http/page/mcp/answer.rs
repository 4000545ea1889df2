//! Answers: a line of numbers, then JSON, which alone contains data from apps. Names are escaped and truncated, lists are
//! cut until everything fits, and the answer says how many items are omitted.

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use tracetee_trace::shown;

/// Bytes of an answer's JSON, which it has twice: as text and as a structure. Its links are not counted, so that an answer has the same
/// rows however long the addresses of captures are.
const MAX_BYTES: usize = 30_000;
/// Characters of a text.
const MAX_CHARS: usize = 300;
/// Numbers of rows that lists are cut to, until the answer fits.
const ROWS: [usize; 7] = [200, 50, 20, 10, 5, 2, 1];
/// Numbers, texts and fields that are together.
const MAX_FIELDS: usize = 200;
/// Field with the address of the capture that another field names.
const LINK: &str = "link";

/// An answer.
pub(super) struct Answer {
    /// A line without a name of an app's.
    pub(super) text: String,
    pub(super) data: Value,
}

/// Gives the address of a capture.
pub(super) type Links<'a> = dyn Fn(&str) -> Option<String> + 'a;

impl Answer {
    /// Makes the result of a call.
    pub(super) fn finish(self, links: &Links<'_>) -> CallToolResult {
        for most in ROWS {
            let mut cutter = Cutter { most, links, link_bytes: 0, left_out: BTreeMap::new() };
            let mut data = cutter.cut("", self.data.clone());
            let mut text = self.text.clone();
            if !cutter.left_out.is_empty() {
                data["left_out"] = json!(cutter.left_out);
                text += " Lists are cut: `left_out` counts the other rows.";
            }
            if data.to_string().len() - cutter.link_bytes <= MAX_BYTES {
                return result(&text, data);
            }
        }
        refused("the answer is too large; ask for less")
    }
}

fn result(text: &str, data: Value) -> CallToolResult {
    let mut result = CallToolResult::structured(data);
    result.content.insert(0, ContentBlock::text(text));
    result
}

/// Makes the result of a call that has failed.
pub(super) fn refused(why: &str) -> CallToolResult {
    CallToolResult::structured_error(json!({"error": short(why)}))
}

/// Escapes a text, and cuts it.
fn short(text: &str) -> String {
    let count = text.chars().count();
    let head: String = text.chars().take(MAX_CHARS).collect();
    let head = shown(&head).into_owned();
    if count > MAX_CHARS { format!("{head}… ({count} characters)") } else { head }
}

struct Cutter<'a> {
    most: usize,
    links: &'a Links<'a>,
    link_bytes: usize,
    /// Rows that are left out, by list.
    left_out: BTreeMap<String, usize>,
}

impl Cutter<'_> {
    fn count(&mut self, list: &str, left_out: usize) {
        if left_out > 0 {
            *self.left_out.entry(list.to_owned()).or_default() += left_out;
        }
    }

    fn cut(&mut self, name: &str, value: Value) -> Value {
        match value {
            Value::String(text) => short(&text).into(),
            Value::Array(rows) => {
                let are_rows = rows.iter().any(|row| row.is_object() || row.is_array());
                let most = if are_rows { self.most } else { MAX_FIELDS };
                self.count(name, rows.len().saturating_sub(most));
                rows.into_iter().take(most).map(|row| self.cut(name, row)).collect()
            }
            Value::Object(fields) => {
                self.count(name, fields.len().saturating_sub(MAX_FIELDS));
                let id = fields.get("capture_id").and_then(Value::as_str);
                let link = id.and_then(self.links);
                let known =
                    fields.into_iter().filter(|(_, value)| !value.is_null()).take(MAX_FIELDS);
                let mut fields: Map<String, Value> = known
                    .map(|(name, value)| (short(&name), self.cut(&short(&name), value)))
                    .collect();
                if let Some(link) = link {
                    self.link_bytes += link.len();
                    fields.remove("raw_key");
                    fields.insert(LINK.to_owned(), link.into());
                }
                Value::Object(fields)
            }
            value => value,
        }
    }
}
