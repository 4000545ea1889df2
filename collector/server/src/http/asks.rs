//! Windows requested from devices while a finding is open, in a header beside the configuration.
//!
//! The guard's thread reports the open findings; the served configuration decides whether a window is allowed for them. A
//! request ends with its finding, when enough devices have sent a capture, and after its time.

use std::collections::BTreeMap;
use tracetee_fleet::database::Reached;
use tracetee_protocol::json::Decimal;
use tracetee_protocol::record;
use tracetee_protocol::remote_config::{Ask, Asks, Document, OnDemand};

/// Name of all jank among the causes of a window on demand.
const ALL_JANK: &str = "jank";

/// A finding that is open, of the version that is worse.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Growth {
    /// App.
    pub app: String,
    /// Cause; empty for all jank, `death` for ends of processes.
    pub cause: String,
    /// Time at which the finding began, Unix time in ms.
    pub since_ms: i64,
    /// Devices of the version, and those that have sent captures since.
    pub reached: Reached,
}

/// Returns the header for devices of an app.
pub(super) fn header(
    growths: &[Growth],
    app: &str,
    document: &Document,
    now_ms: i64,
) -> Option<String> {
    let own = growths.iter().filter(|growth| growth.app == app);
    let asks = own.filter_map(|growth| ask(growth, document, now_ms));
    let asks: BTreeMap<String, Ask> = asks.map(|ask| (ask.window.clone(), ask)).collect();
    (!asks.is_empty()).then(|| record::to_json(&Asks { asks: asks.into_values().collect() }))
}

/// Returns the request for the first window that the document allows for a finding.
fn ask(growth: &Growth, document: &Document, now_ms: i64) -> Option<Ask> {
    let Growth { cause, since_ms, reached, .. } = growth;
    let cause = if cause.is_empty() { ALL_JANK } else { cause };
    let is_for = |allowed: &&OnDemand| {
        allowed.causes.is_empty() || allowed.causes.iter().any(|other| other == cause)
    };
    let allowed = document.on_demand.iter().find(is_for)?;
    let window = &allowed.window.id;
    let age_s = u64::try_from(now_ms.saturating_sub(*since_ms)).unwrap_or(0) / 1000;
    let devices = reached.by_window.get(window).copied().unwrap_or(0);
    (age_s < allowed.for_s && devices < allowed.devices.into()).then(|| Ask {
        id: since_ms.to_string(),
        window: window.clone(),
        percent: percent(allowed, document, reached, age_s),
        version_code: reached.version_code,
        since_ms: 0,
    })
}

/// Returns the share of a window's devices that contains about the wanted number. Not every device runs the app and captures
/// something, so the share doubles each time that all devices have requested the configuration twice.
fn percent(allowed: &OnDemand, document: &Document, reached: &Reached, age_s: u64) -> Decimal {
    // Devices are known from ledgers, or from captures, which devices in the sample of a window have.
    let of_windows = document.windows.iter().map(|window| window.sampling.percent.to_f64());
    let (known, sampled) = match reached.ledger_devices {
        0 => (reached.devices, of_windows.reduce(f64::max)),
        devices => (devices, Some(document.ledger.sampling.percent.to_f64())),
    };
    let sampled = sampled.filter(|share| *share > 0.0).unwrap_or(100.0);
    let own = allowed.window.sampling.percent.to_f64().max(1e-6);
    let doublings = age_s / (2 * document.upload.poll_s.max(1));
    #[allow(clippy::cast_precision_loss, reason = "devices of a fleet")]
    let known = known.max(1) as f64;
    let growth = 2_f64.powi(i32::try_from(doublings).unwrap_or(i32::MAX));
    let percent = 100.0 * f64::from(allowed.devices) / known * (sampled / own) * growth;
    Decimal::from_f64(percent.min(100.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracetee_protocol::remote_config::parse;

    #[test]
    fn a_window_is_asked_for_only_as_far_as_the_document_allows() {
        let document = |causes: &str| {
            let window = r#"{"id": "more", "sampling": {"percent": 50}}"#;
            let on_demand = format!(r#"{{"causes": {causes}, "devices": 10, "window": {window}}}"#);
            let text = format!(
                r#"{{"schema": 1, "seq": 1, "windows": [{{"id": "w", "sampling": {{"percent": 1}}}}],
                    "ledger": {{"sampling": {{"percent": 10}}}}, "on_demand": [{on_demand}]}}"#
            );
            parse(text.as_bytes()).unwrap().document
        };
        let reached = |captured| Reached {
            version_code: Some((21, 21)),
            devices: 1000,
            by_window: [("more".to_owned(), captured)].into(),
            ..Reached::default()
        };
        let growth = |captured| Growth {
            cause: "section".to_owned(),
            reached: reached(captured),
            ..Growth::default()
        };
        let asked = |causes: &str, captured, s: i64| {
            ask(&growth(captured), &document(causes), s * 1000).map(|ask| ask.percent.to_f64())
        };
        // 10 of 100,000 devices, of which every second one may be asked.
        assert_eq!(asked("[]", 0, 0), Some(0.02));
        assert_eq!(asked(r#"["lock", "section"]"#, 9, 7200), Some(0.04));
        assert_eq!(asked("[]", 9, 72 * 3600 - 1), Some(100.0));
        assert_eq!(asked("[]", 9, 72 * 3600), None);
        assert_eq!(asked("[]", 10, 0), None);
        assert_eq!(asked(r#"["lock", "jank"]"#, 0, 0), None);
        let all = Growth { cause: String::new(), ..growth(0) };
        assert!(ask(&all, &document(r#"["jank"]"#), 0).is_some());
        assert!(ask(&growth(0), &Document::default(), 0).is_none());
        // Of 50,000 devices, a tenth of which has ledgers.
        let mut deaths = Growth { cause: "death".to_owned(), ..growth(0) };
        deaths.reached.ledger_devices = 5000;
        assert!(ask(&deaths, &document(r#"["section"]"#), 0).is_none());
        let asked = ask(&deaths, &document(r#"["death"]"#), 0).unwrap();
        assert_eq!(asked.percent.to_f64(), 0.04);
    }
}
