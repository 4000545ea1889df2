//! The details of a record, which the agent writes as a comment before the record's line:
//! `#@ {"cat":"net","args":{"url":"/x"},"flows":["begin:17"],"cpu_ns":12}` (docs/TRACE-FORMAT.md).

use crate::builder::{Builder, Live};
use crate::model::{Flow, FlowKind, FlowRecord, MAX_NS};
use crate::names::NameId;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use tracetee_protocol::notes;

/// Limit of a comment in bytes. The agent's have at most 12 KB.
const MAX_BYTES: usize = 64 << 10;
/// Name for the flows of text, which have no names.
pub const FLOW: &str = "flow";
/// Details for which the agent had no space.
const LEFT_OUT: &str = "details of records beyond the limit of a record";

/// Details of the next record.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Details {
    pub(crate) category: NameId,
    /// Arguments as JSON.
    pub(crate) args: NameId,
    /// Processor time of the thread, ns.
    pub(crate) cpu_ns: Option<u64>,
    /// Time of the record, if it is before that of its line.
    pub(crate) at_ns: Option<u64>,
    /// Exact value of a counter.
    pub(crate) value: Option<f64>,
    flows: Vec<(FlowKind, u64)>,
}

#[derive(Deserialize)]
struct Text<'a> {
    #[serde(borrow)]
    cat: Option<Cow<'a, str>>,
    args: Option<&'a RawValue>,
    #[serde(default)]
    flows: Vec<Cow<'a, str>>,
    cpu_ns: Option<u64>,
    at_ns: Option<u64>,
    value: Option<&'a RawValue>,
    left_out: Option<u64>,
}

/// Reads the details of a line; `None` for another line.
pub(crate) fn parse(
    line: &[u8],
    builder: &mut Builder,
) -> Option<Result<Box<Details>, &'static str>> {
    let json = line.strip_prefix(notes::DETAILS.as_bytes())?;
    Some(read(json, builder).ok_or("the details of a record do not follow docs/TRACE-FORMAT.md"))
}

fn read(json: &[u8], builder: &mut Builder) -> Option<Box<Details>> {
    if json.len() > MAX_BYTES {
        return None;
    }
    let text: Text<'_> = serde_json::from_slice(json).ok()?;
    let flow = |text: &Cow<'_, str>| {
        let (kind, id) = text.split_once(':')?;
        let kind = match kind {
            "begin" => FlowKind::Start,
            "step" => FlowKind::Step,
            "end" => FlowKind::End,
            _ => return None,
        };
        Some((kind, id.parse().ok()?))
    };
    let flows = text.flows.iter().map(flow).collect::<Option<_>>()?;
    let args = text.args.map_or("{}", RawValue::get);
    if !args.starts_with('{') {
        return None;
    }
    let names = &mut builder.trace.names;
    let details = Details {
        category: text.cat.map_or(NameId::NONE, |name| names.id(name.as_bytes())),
        args: if args == "{}" { NameId::NONE } else { names.id(plain(args).as_bytes()) },
        cpu_ns: text.cpu_ns.map(|ns| ns.min(MAX_NS)),
        at_ns: text.at_ns.map(|ns| ns.min(MAX_NS)),
        value: text.value.map(|value| value.get().parse().ok()).unwrap_or_default(),
        flows,
    };
    builder.not_read(LEFT_OUT, text.left_out.unwrap_or_default());
    Some(Box::new(details))
}

/// Returns JSON without the escapes that only a line of text needs: Perfetto shows JSON escapes literally.
fn plain(json: &str) -> Cow<'_, str> {
    if !json.contains("\\u") {
        return Cow::Borrowed(json);
    }
    let mut parts = json.split('\\');
    let mut text = parts.next().unwrap_or_default().to_owned();
    while let Some(part) = parts.next() {
        let code =
            part.strip_prefix('u').and_then(|code| u8::from_str_radix(code.get(..4)?, 16).ok());
        match code.map(char::from) {
            Some(char @ ('"' | '\\')) => text.extend(['\\', char]),
            Some('\n') => text.push_str("\\n"),
            Some(char @ ' '..='~') => text.push(char),
            _ => {
                text.push('\\');
                text.push_str(part);
                // An escaped backslash does not begin the next escape.
                if part.is_empty() {
                    text.push('\\');
                    text.push_str(parts.next().unwrap_or_default());
                }
                continue;
            }
        }
        text.push_str(part.get(5..).unwrap_or_default());
    }
    Cow::Owned(text)
}

impl Details {
    /// Adds the points of flows, at this record.
    pub(crate) fn flow(
        &self,
        builder: &mut Builder,
        live: Live,
        at_ns: u64,
        record: Option<FlowRecord>,
    ) {
        if self.flows.is_empty() {
            return;
        }
        let (thread, name) = (builder.key(live), builder.trace.names.id(FLOW.as_bytes()));
        for &(kind, id) in &self.flows {
            let category = NameId::NONE;
            builder.trace.flows.push(Flow { thread, name, category, id, kind, at_ns, record });
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::model::{FlowKind, Trace};
    use crate::text::read;

    fn parsed(lines: &[&str]) -> Trace {
        let mut text = "# tracer: nop\n".to_owned();
        for (index, line) in lines.iter().enumerate() {
            if line.starts_with('#') {
                text.push_str(&format!("{line}\n"));
            } else {
                let at = format!("0.{:06}", index + 1);
                text.push_str(&format!(" app-5 (5) [000] ...1 {at}: tracing_mark_write: {line}\n"));
            }
        }
        read(text.as_bytes()).unwrap()
    }

    #[test]
    fn details_belong_to_the_record_after_them() {
        let trace = parsed(&[
            r##"#@ {"args":{"n":3},"cat":"net","flows":["begin:17"],"cpu_ns":100}"##,
            "B|5|fetch",
            "B|5|plain",
            "E|5",
            r##"#@ {"args":{"ok":true},"cpu_ns":175}"##,
            "E|5",
            r##"#@ {"cat":"io","at_ns":3000,"args":{"a":1}}"##,
            "S|5|late|9",
            r##"#@ {"args":{"b":2}}"##,
            "F|5|late|9",
            r##"#@ {"args":{"x":"y"},"cat":"c","flows":["step:17","end:17"]}"##,
            "I|5|now",
            r##"#@ {"value":0.336491,"left_out":2}"##,
            "C|5|load|0",
            "C|5|load|7",
        ]);
        let text = |id| trace.names.text(id);
        let thread = &trace.threads[&5];
        let names: Vec<_> =
            thread.slices.iter().map(|slice| (text(slice.name), text(slice.category))).collect();
        assert_eq!(names, [("fetch", "net"), ("plain", "")]);
        assert_eq!(text(thread.args[&0]), r#"{"n":3,"ok":true}"#);
        assert_eq!((thread.args.len(), thread.cpu_ns[0]), (1, (100, 175)));
        let late = &trace.asyncs[0];
        assert_eq!((text(late.category), text(late.args)), ("io", r#"{"a":1,"b":2}"#));
        assert_eq!((late.start_ns, late.end_ns), (3000, 10_000));
        let now = &trace.instants[0];
        assert_eq!((text(now.category), text(now.args)), ("c", r#"{"x":"y"}"#));
        let flows: Vec<_> =
            trace.flows.iter().map(|flow| (flow.kind, flow.id, flow.at_ns)).collect();
        let expected = [
            (FlowKind::Start, 17, 2000),
            (FlowKind::Step, 17, 12_000),
            (FlowKind::End, 17, 12_000),
        ];
        assert_eq!(flows, expected);
        let values: Vec<_> = trace.counters.iter().map(|one| one.value).collect();
        assert_eq!(values, [0.336_491, 7.0]);
        assert_eq!(trace.losses.unread[super::LEFT_OUT], 2);
        assert_eq!((trace.losses.bad_lines, trace.losses.unread.len()), (0, 1));
    }

    #[test]
    fn escapes_that_only_text_needs_are_gone() {
        for (text, expected) in [
            (r#"{"a":"plain \"é"}"#, r#"{"a":"plain \"é"}"#),
            (r#"{"a":"\u005b0] \u0022 \u005c \u000a\u003c"}"#, r#"{"a":"[0] \" \\ \n<"}"#),
            (
                r#"{"a":"\\u005b \\\\ \\\u005b \u0001 \u00e9 \ud83d\ude00"}"#,
                r#"{"a":"\\u005b \\\\ \\[ \u0001 \u00e9 \ud83d\ude00"}"#,
            ),
        ] {
            assert_eq!(super::plain(text), expected);
            let value = |text| serde_json::from_str::<serde_json::Value>(text).unwrap();
            assert_eq!(value(text), value(expected));
        }
        let trace = parsed(&[r##"#@ {"args":{"a":"\u005b0]"}}"##, "B|5|a"]);
        let args = trace.threads[&5].args[&0];
        assert_eq!(trace.names.text(args), r#"{"a":"[0]"}"#);
    }

    #[test]
    fn details_without_a_record_and_wrong_ones_are_counted() {
        let trace = parsed(&[
            r##"#@ {"cat":"lost"}"##,
            r##"#@ {"cat":"a"}"##,
            "B|5|a",
            "#@ {",
            r##"#@ {"args":[1]}"##,
            r##"#@ {"flows":["begin:x"]}"##,
            "E|5",
            "#@",
            "#@@ x",
        ]);
        assert_eq!(trace.losses.unread[crate::text::LOOSE], 1);
        assert_eq!(trace.losses.bad_lines, 3);
        let slice = &trace.threads[&5].slices[0];
        assert_eq!(trace.names.text(slice.category), "a");
        let long = format!("#@ {{\"cat\":\"{}\"}}", "x".repeat(super::MAX_BYTES));
        assert_eq!(parsed(&[&long, "I|5|now"]).losses.bad_lines, 1);
    }

    proptest::proptest! {
        #[test]
        fn no_details_are_too_much_for_it(bytes: Vec<u8>) {
            let text = [b"# tracer: nop\n#@ ", &*bytes, b"\n app-5 (5) [000] ...1 0.1: tracing_mark_write: I|5|x\n"];
            let _ = read(&*text.concat());
        }
    }
}
