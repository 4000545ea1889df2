//! A report as one HTML file that needs nothing else: data, styles and script are in it.
//!
//! The data is JSON in a script element that no browser runs; the page's own script makes text nodes of
//! it. So a name of a trace can never be markup: in the JSON no `<` is left, and nothing is ever set as
//! HTML. Its charts are SVG of its own: a library of charts was 210 KB of 276, drew on a canvas that is neither read out nor
//! printed, and had no bar with a deadline.

use super::fleet::{CauseOf, Example, FleetReport};
use super::single::{SingleReport, sentence_of};
use super::timeline;
use crate::capture::Capture;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tracetee_jank::{Cause, Named};

/// Most bytes of timelines in a page, packed: a page of some 40 MB opens on a phone.
pub const MAX_EMBEDDED_BYTES: usize = 16 << 20;
/// Causes of an app whose best example has its timeline in a fleet's page.
const CAUSES_WITH_TIMELINE: usize = 10;

const PAGE: &str = include_str!("../../web/report.html");
const STYLE: &str = include_str!("../../web/report.css");
/// The page's script, in parts that use those before them.
const SCRIPT: &str = concat!(
    "\"use strict\";\n(() => {\n",
    include_str!("../../web/report/tools.js"),
    include_str!("../../web/report/address.js"),
    include_str!("../../web/report/table.js"),
    include_str!("../../web/report/chart.js"),
    include_str!("../../web/report/timelines.js"),
    include_str!("../../web/report/frame.js"),
    include_str!("../../web/report/answer.js"),
    include_str!("../../web/report/single.js"),
    include_str!("../../web/report/compared.js"),
    include_str!("../../web/report/fleet.js"),
    include_str!("../../web/report/start.js"),
    "})();\n"
);

/// Captures that a fleet's page carries: the best example of each app's first causes.
#[derive(Debug, Default)]
pub struct Examples {
    /// Timelines as gzip in base64, by id of the capture.
    timelines: BTreeMap<String, String>,
    /// The sentence of the frame that lost most by a cause, by capture, cause and key.
    sentences: BTreeMap<String, String>,
}

impl Examples {
    /// Reads them, up to [`MAX_EMBEDDED_BYTES`] in all. `read` gives a capture by its raw key, if it can be read.
    pub fn read(report: &FleetReport, read: impl Fn(&str) -> Option<Capture>) -> Self {
        let (mut made, mut bytes) = (Self::default(), 0);
        let causes =
            report.apps.iter().flat_map(|app| app.causes.iter().take(CAUSES_WITH_TIMELINE));
        let best: Vec<_> =
            causes.filter_map(|cause| Some((cause, cause.examples.first()?))).collect();
        for (_, Example { capture_id: id, raw_key, .. }) in &best {
            if made.timelines.contains_key(id) {
                continue;
            }
            let Some(Capture { trace, analysis }) = read(raw_key) else { continue };
            let name = raw_key.rsplit('/').next().unwrap_or_default();
            let Ok(timeline) = timeline::compressed(name, &trace, &analysis) else { continue };
            if bytes + timeline.len() > MAX_EMBEDDED_BYTES {
                continue;
            }
            bytes += timeline.len();
            made.timelines.insert(id.clone(), STANDARD.encode(timeline));
            for (CauseOf { cause, key, .. }, _) in best.iter().filter(|one| one.1.capture_id == *id)
            {
                let said = sentence_of(&analysis, cause, key);
                made.sentences.extend(said.map(|said| (format!("{id}|{cause}|{key}"), said)));
            }
        }
        made
    }
}

/// Makes the page of a fleet for a file. Captures are linked at an address with their raw key appended, if there is one.
#[must_use]
pub fn fleet(report: &FleetReport, captures_at: Option<&str>, examples: &Examples) -> String {
    let Examples { timelines, sentences } = examples;
    page(json!({
        "kind": "fleet", "report": report, "captures_at": captures_at, "live_s": null, "timelines": timelines,
        "sentences": sentences,
    }))
}

/// Makes the page of a fleet for a collector, which has the captures. The page reloads its data every `live_s` seconds.
#[must_use]
pub fn live_fleet(report: &FleetReport, live_s: u32) -> String {
    page(json!({
        "kind": "fleet", "report": report, "captures_at": "", "live_s": live_s, "timelines": {}, "sentences": {},
    }))
}

/// Timeline of a capture's page.
#[derive(Debug, Clone, Copy)]
pub enum Timeline<'a> {
    /// Address of the timeline's page.
    At(&'a str),
    /// The timeline's page as gzip ([`timeline::compressed`]), which becomes part of this one.
    Embedded(&'a [u8]),
    /// None, for a reason in words.
    Without(&'a str),
}

/// A profile of Android's own that belongs to a capture.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub struct Beside<'a> {
    /// Kind of the file.
    pub kind: &'a str,
    /// Its address, to save it.
    pub at: &'a str,
    /// True if it is one trace with the capture here.
    pub is_joined: bool,
}

/// Makes the page of a capture. With `trace`, the stored capture is embedded, and can be saved and opened in Perfetto from
/// the page.
#[must_use]
pub fn single(
    report: &SingleReport,
    trace: Option<(&str, &[u8])>,
    timeline: Timeline<'_>,
    profile: Option<Beside<'_>>,
) -> String {
    let trace = trace.map(|(name, bytes)| json!({"name": name, "base64": STANDARD.encode(bytes)}));
    let (timeline, without) = match timeline {
        Timeline::At(address) => (json!({"at": address}), None),
        Timeline::Embedded(gzip) => (json!({"gzip_base64": STANDARD.encode(gzip)}), None),
        Timeline::Without(why) => (Value::Null, Some(why)),
    };
    let unknown: Vec<_> = report.unknown.iter().map(|unknown| unknown.text()).collect();
    page(json!({
        "kind": "single", "report": report, "trace": trace, "timeline": timeline, "unknown": unknown,
        "without_timeline": without, "profile": profile,
    }))
}

/// Returns the `Content-Security-Policy` for servers of reports and timelines: only their own scripts run, and no frame may
/// contain them.
#[must_use]
pub fn policy() -> String {
    let hash = |script: &str| STANDARD.encode(hmac_sha256::Hash::hash(script.as_bytes()));
    format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{}' 'sha256-{}'; \
         connect-src 'self'; img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
        hash(SCRIPT),
        hash(&tracetee_convert::PAGE_SCRIPT)
    )
}

/// Makes the page of its data, and of the meanings of causes.
fn page(mut data: Value) -> String {
    let meanings: serde_json::Map<_, _> = Cause::ALL
        .iter()
        .map(|cause| (cause.name().to_owned(), json!([cause.meaning(), cause.action()])))
        .collect();
    data["meanings"] = meanings.into();
    // In a script element `</script` and `<!--` would end it.
    let data = data.to_string().replace('<', "\\u003c");
    PAGE.replace("/*STYLE*/", STYLE).replace("/*SCRIPT*/", SCRIPT).replace("/*DATA*/", &data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_without_a_trace_is_small() {
        let page = page(json!({}));
        assert!(page.len() < 120 * 1024, "{}", page.len());
        assert!(!page.contains("/*SCRIPT*/") && !page.contains("/*STYLE*/"));
    }
}
