//! A report as one HTML file that needs nothing else: data, styles, script and Chart.js are in it.
//!
//! The data is JSON in a script element that no browser runs; the page's own script makes text nodes of
//! it. So a name of a trace can never be markup: in the JSON no `<` is left, and nothing is ever set as
//! HTML. Chart.js (MIT, <https://www.chartjs.org>) lies in `web/`, as npm has it.

use super::fleet::FleetReport;
use super::single::SingleReport;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const PAGE: &str = include_str!("../../web/report.html");
const STYLE: &str = include_str!("../../web/report.css");
const SCRIPT: &str = include_str!("../../web/report.js");
const CHARTS: &str = include_str!("../../web/chart.umd.min.js");
/// Licence of Chart.js, which asks to be in each copy: so it is in each page.
const CHARTS_LICENCE: &str = include_str!("../../web/chart.LICENSE.md");

/// Link target of captures.
#[derive(Debug, Clone, Copy)]
pub enum Captures<'a> {
    /// Address that the raw key is appended to: a store's directory, or a collector.
    At(&'a str),
    /// No links.
    Nowhere,
}

/// Makes the page of a fleet for a file. `timelines` has pages as gzip ([`super::timeline::compressed`]) by the id of the
/// capture; they become part of this one.
#[must_use]
pub fn fleet(
    report: &FleetReport,
    captures: Captures<'_>,
    timelines: &BTreeMap<String, Vec<u8>>,
) -> String {
    let at = match captures {
        Captures::At(address) => Some(address),
        Captures::Nowhere => None,
    };
    let timelines: BTreeMap<_, _> =
        timelines.iter().map(|(id, gzip)| (id, STANDARD.encode(gzip))).collect();
    page(&json!({
        "kind": "fleet", "report": report, "captures_at": at, "live_s": null, "timelines": timelines,
    }))
}

/// Makes the page of a fleet for a collector, which has the captures. The page reloads its data every `live_s` seconds.
#[must_use]
pub fn live_fleet(report: &FleetReport, live_s: u32) -> String {
    page(&json!({
        "kind": "fleet", "report": report, "captures_at": "", "live_s": live_s, "timelines": {},
    }))
}

/// Timeline of a capture's page.
#[derive(Debug, Clone, Copy)]
pub enum Timeline<'a> {
    /// Address of the timeline's page.
    At(&'a str),
    /// The timeline's page as gzip ([`super::timeline::compressed`]), which becomes part of this one.
    Embedded(&'a [u8]),
    /// None.
    Nowhere,
}

/// Makes the page of a capture. With `trace`, the stored capture is embedded, and can be saved and opened in Perfetto from
/// the page.
#[must_use]
pub fn single(
    report: &SingleReport,
    trace: Option<(&str, &[u8])>,
    timeline: Timeline<'_>,
) -> String {
    let trace = trace.map(|(name, bytes)| json!({"name": name, "base64": STANDARD.encode(bytes)}));
    let timeline = match timeline {
        Timeline::At(address) => json!({"at": address}),
        Timeline::Embedded(gzip) => json!({"gzip_base64": STANDARD.encode(gzip)}),
        Timeline::Nowhere => Value::Null,
    };
    let unknown: Vec<_> = report.unknown.iter().map(|unknown| unknown.text()).collect();
    page(&json!({
        "kind": "single", "report": report, "trace": trace, "timeline": timeline, "unknown": unknown,
    }))
}

/// Returns the `Content-Security-Policy` for servers of reports and timelines: only their own scripts run, and no frame may
/// contain them.
#[must_use]
pub fn policy() -> String {
    let hash = |script: &str| STANDARD.encode(hmac_sha256::Hash::hash(script.as_bytes()));
    format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{}' 'sha256-{}' 'sha256-{}'; \
         connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash(&charts()),
        hash(SCRIPT),
        hash(tracetee_convert::PAGE_SCRIPT)
    )
}

fn charts() -> String {
    let script = CHARTS.replace("//# sourceMappingURL=chart.umd.min.js.map", "");
    format!("/*!\n{CHARTS_LICENCE}*/\n{script}")
}

fn page(data: &Value) -> String {
    // In a script element `</script` and `<!--` would end it.
    let data = data.to_string().replace('<', "\\u003c");
    PAGE.replace("/*STYLE*/", STYLE)
        .replace("/*CHARTS*/", &charts())
        .replace("/*SCRIPT*/", SCRIPT)
        .replace("/*DATA*/", &data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_the_licence_of_the_charts_in_it() {
        let page = page(&json!({}));
        for text in ["Permission is hereby granted", "Chart.js Contributors", "Jukka Kurkela"] {
            assert!(page.contains(text), "{text}");
        }
        assert!(
            !CHARTS_LICENCE.contains("*/") && !CHARTS_LICENCE.contains('<'),
            "it ends no comment"
        );
    }
}
