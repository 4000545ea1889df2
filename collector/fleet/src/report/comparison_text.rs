//! A comparison for a terminal.

use super::fleet_text::push_title;
use super::table::{left, right, toned_table};
use super::tone::Tone;
use crate::change::Source;
use crate::change::comparison::{Comparison, Difference, Verdict};
use crate::change::constants::{LEAST_CHANGE, SAME_BELOW};
use std::fmt::Write;
use tracetee_trace::shown;

/// Limit of printed differences.
const SHOWN: usize = 20;

pub(super) fn push_comparison(text: &mut String, comparison: &Comparison) {
    let Comparison {
        source, from, to, sentence, devices_sentence, level, least_devices, rows, ..
    } = comparison;
    push_title(text, &format!("From {} to {}, {}", shown(from), shown(to), source.unit()));
    let tone = tone_of(comparison.verdict);
    let _ = writeln!(text, "  {}", tone.map_or_else(|| sentence.clone(), |tone| tone.of(sentence)));
    if rows.is_empty() {
        let _ = writeln!(text, "  {devices_sentence}");
        return;
    }
    let columns = [
        left("", |row: &Difference| row.cause.clone().unwrap_or_else(|| row.name())),
        left("what", |row: &Difference| row.key.clone()),
        right(from, |row: &Difference| format!("{:.1}", row.estimate.ms_in_1000[0])),
        right(to, |row: &Difference| format!("{:.1}", row.estimate.ms_in_1000[1])),
        right("others", |row: &Difference| {
            let [was, is] = row.estimate.control_ms_in_1000;
            format!("{was:.1} to {is:.1}")
        }),
        right("change", |row: &Difference| row.estimate.size()),
        right("p", |row: &Difference| format!("{:.4}", row.p)),
        left("", |row: &Difference| row.verdict.text().to_owned()),
    ];
    let shown_rows = rows.iter().filter(|row| row.cause.is_none() || row.p < 0.5).take(SHOWN);
    text.push_str(&toned_table(shown_rows, &columns, |row| tone_of(row.verdict)));
    let _ = writeln!(text, "  {devices_sentence}");
    let [level, change, same] = [*level, LEAST_CHANGE, SAME_BELOW].map(|share| share * 100.0);
    let of_causes = " A cause counts in frames of which it took a tenth or more.";
    let of_causes = if *source == Source::Captures { of_causes } else { "" };
    let _ = writeln!(
        text,
        "  {}: means of the devices that updated, before and after it, and of the others, before the release \
         and since. The change is that beyond the change of devices like them on the same days, with its interval of 95 %.{of_causes} \
         p is adjusted by Holm for all causes. \"WORSE\" and \"better\": p below {level} %, at least {change} % of change, \
         {least_devices} devices. \"same\": a rise of {same} % is excluded.",
        source.unit()
    );
}

/// Returns the tone of a verdict.
const fn tone_of(verdict: Verdict) -> Option<Tone> {
    match verdict {
        Verdict::Worse => Some(Tone::Worse),
        Verdict::Better => Some(Tone::Better),
        Verdict::Same | Verdict::Unknown => None,
    }
}

/// The name of a screen or another group; captures without one come from apps that name none.
pub(super) fn named(kind: &str, name: &str) -> String {
    if name.is_empty() { format!("(no {kind} named)") } else { name.to_owned() }
}
