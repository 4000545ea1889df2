//! A comparison for a terminal.

use super::comparison::{Compared, Comparison, Difference, KindOfDevice, Verdict};
use super::table::{lay_out, left, right, table};
use super::{grouped, percent};
use std::fmt::Write;
use tracetee_trace::shown;

/// Limits of printed differences, and of kinds of devices.
const SHOWN: usize = 20;
const SHOWN_KINDS: usize = 8;

pub(super) fn push_comparison(text: &mut String, comparison: &Comparison) {
    let Comparison { level, least_devices, least_change, quantile, .. } = comparison;
    let [from, to] = [shown(&comparison.from), shown(&comparison.to)];
    let _ = writeln!(
        text,
        "\nFrom {from} to {to}: ms in a thousand frames, on the same mix of devices and screens"
    );
    if comparison.rows.iter().all(|row| row.verdict == Verdict::NotCompared) {
        text.push_str(
            "  No difference can be shown: no device has a counterpart under the other version.\n",
        );
    } else {
        push_rows(text, comparison);
    }
    push_devices(text, comparison);
    if comparison.is_mix_different {
        push_mix(text, comparison);
    }
    let [level, change] = [level, least_change].map(|share| share * 100.0);
    let quantile = quantile * 100.0;
    let _ = writeln!(
        text,
        "  A device has one vote; values above the {quantile} % quantile count as that. A cause counts in frames of which it \
         took a tenth or more. p is adjusted by Holm for all causes. \"WORSE\" and \"better\": p below {level} %, at least \
         {change} % of difference, at least {least_devices} devices of each."
    );
}

fn push_rows(text: &mut String, comparison: &Comparison) {
    let columns = [
        left("", |row: &Difference| row.cause.clone().unwrap_or_else(|| "all jank".to_owned())),
        left("what", |row: &Difference| row.key.clone()),
        right(&comparison.from, |row: &Difference| format!("{:.1}", row.ms_in_1000[0])),
        right(&comparison.to, |row: &Difference| format!("{:.1}", row.ms_in_1000[1])),
        right("paired", |row: &Difference| difference(row.paired_ms)),
        right("others", |row: &Difference| difference(row.stratified_ms)),
        right("p", |row: &Difference| format!("{:.4}", row.p)),
        left("", |row: &Difference| verdict(row).to_owned()),
    ];
    let rows = comparison.rows.iter().filter(|row| row.cause.is_none() || row.p < 0.5).take(SHOWN);
    text.push_str(&table(rows, &columns));
}

fn difference(of: Option<[f64; 2]>) -> String {
    of.map_or_else(|| "-".to_owned(), |[was, is]| format!("{:+.1}", is - was))
}

const fn verdict(row: &Difference) -> &'static str {
    match row.verdict {
        Verdict::Worse => "WORSE",
        Verdict::Better => "better",
        Verdict::Same => "no significant difference",
        Verdict::TooFew => "too few devices",
        Verdict::NotCompared => "not compared",
    }
}

/// Writes which devices say so, and which are not asked.
fn push_devices(text: &mut String, comparison: &Comparison) {
    let Compared { sent, paired, stratified, .. } = comparison.devices;
    let pair = |counts: [u64; 2]| {
        format!(
            "{} of {} and {} of {}",
            grouped(counts[0]),
            shown(&comparison.from),
            grouped(counts[1]),
            shown(&comparison.to)
        )
    };
    let _ = writeln!(text, "  Devices: {}.", pair(sent));
    if paired > 0 {
        let _ = writeln!(
            text,
            "  Paired: {} sent both versions, each is compared with itself.",
            grouped(paired)
        );
    }
    if stratified != [0, 0] {
        let _ = writeln!(
            text,
            "  Others: {} are compared with devices like them (speed, API level, refresh rate; by screen).",
            pair(stratified)
        );
    }
    if let Some(factor) = comparison.bound_factor {
        let _ = writeln!(
            text,
            "  No device has a counterpart, because their models are unknown. A difference counts as far as no shift of the mix up \
             to a factor of {factor} explains it; the means are as seen."
        );
        return;
    }
    let Compared { unknown_model, unseen_model, without_likeness, test_devices, .. } =
        comparison.devices;
    for (counts, why) in [
        (unknown_model, "their model is unknown"),
        (unseen_model, "their model is not seen under the earlier version"),
        (without_likeness, "the other version has too few like them"),
    ] {
        if counts != [0, 0] {
            let share = percent(counts.iter().sum(), sent.iter().sum());
            let _ = writeln!(text, "  Not compared, {share}: {}: {why}.", pair(counts));
        }
    }
    if test_devices != [0, 0] {
        let _ = writeln!(
            text,
            "  Left out: {}: emulators and debuggable builds (--test-devices compares them).",
            pair(test_devices)
        );
    }
    if !comparison.screens_not_compared.is_empty() {
        let names: Vec<String> =
            comparison.screens_not_compared.iter().map(|name| named("screen", name)).collect();
        let _ =
            writeln!(text, "  Screens that one version alone has: {}.", shown(&names.join(", ")));
    }
}

/// The name of a screen or another group; captures without one come from apps that name none.
pub(super) fn named(what: &str, name: &str) -> String {
    if name.is_empty() { format!("(no {what} named)") } else { name.to_owned() }
}

/// Writes both mixes.
fn push_mix(text: &mut String, comparison: &Comparison) {
    let sent = comparison.devices.sent;
    text.push_str("\n  The mix differs; shares of devices, and of frames by screen\n");
    let mut rows: Vec<Vec<String>> = comparison
        .mix
        .iter()
        .take(SHOWN_KINDS)
        .map(|kind| {
            let shares = [0, 1].map(|side| percent(kind.devices[side], sent[side]));
            let [from, to] = shares;
            let compared = if kind.is_compared { "" } else { "only paired ones are compared" };
            vec![kind_of(kind), from, to, compared.to_owned()]
        })
        .collect();
    let more = comparison.mix.len().saturating_sub(SHOWN_KINDS);
    if more > 0 {
        rows.push(vec![format!("{more} more"), String::new(), String::new(), String::new()]);
    }
    for screen in &comparison.screens {
        let [from, to] = screen.shares.map(|share| format!("{:.1} %", share * 100.0));
        rows.push(vec![
            format!("screen {}", named("screen", &screen.screen)),
            from,
            to,
            String::new(),
        ]);
    }
    text.push_str(&lay_out(&["", &comparison.from, &comparison.to, ""], &[0, 3], &rows));
}

fn kind_of(kind: &KindOfDevice) -> String {
    let (Some(model), Some(device)) = (kind.model_ms, kind.device_ms) else {
        return "unknown or new models".to_owned();
    };
    let range = |[from, to]: [f64; 2]| format!("{from:.1} to {to:.1} ms");
    let mut text = range(model);
    #[allow(clippy::float_cmp, reason = "ranges of the same class are the same")]
    if model != device {
        let _ = write!(text, " (here {})", range(device));
    }
    if kind.api > 0 {
        let _ = write!(text, ", API {}", kind.api);
    }
    let _ = write!(text, ", {} Hz", kind.hz);
    text
}
