//! Reports: of a fleet ([`fleet`], [`crate::change::comparison`]) and of one capture ([`single`]), each as a structure that is JSON by
//! itself, as text for a terminal, and as one HTML file ([`html`]); and what the timeline's page of a trace says of its frames ([`timeline`]).

mod answer_text;
pub mod breakdown;
mod comparison_text;
mod deaths;
pub mod fixes;
pub mod fleet;
mod fleet_text;
mod from_tables;
pub mod html;
pub mod ledgers;
pub mod quantile_errors;
pub mod single;
mod single_judged;
mod single_late;
mod single_rows;
mod single_sections;
mod single_sentence;
mod single_text;
mod table;
pub mod timeline;
mod tone;

pub use crate::significance::grouped;
pub use table::set_width;
pub use tone::{Tone, pieces, plain};

/// JSON schema of a report's JSON: of a fleet's and of a capture's. Closed: a field that it does not name is an error.
pub const SCHEMA: &str = include_str!("../../schema/report.schema.json");

/// Returns a text as Markdown, for a comment on a pull request: in a fence that no name of the text ends, since it is
/// longer than each run of tildes in it.
#[must_use]
pub fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '~').map(str::len).max().unwrap_or_default();
    let fence = "~".repeat(6.max(longest + 1));
    format!("{fence}text\n{text}{fence}\n")
}

/// Writes a duration: ms with a decimal, s from ten on. Rounded half up, as the page does.
pub(crate) fn ms(ns: u64) -> String {
    let (unit_ns, unit) =
        if ns >= 10_000_000_000 { (1_000_000_000, "s") } else { (1_000_000, "ms") };
    let tenths = ns.saturating_add(unit_ns / 20) / (unit_ns / 10);
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

/// Writes a count with its noun: `1 frame`, `2,000 frames`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(count), if count == 1 { "" } else { "s" })
}

/// True if a part is at least this share of a whole.
pub(crate) fn is_share(part: u64, whole: u64, percent: u64) -> bool {
    u128::from(part) * 100 >= u128::from(whole) * u128::from(percent)
}

/// Writes a share in percent with one decimal.
#[must_use]
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    let permille = (u128::from(part) * 1000 + u128::from(whole / 2)) / u128::from(whole);
    format!("{}.{} %", permille / 10, permille % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_half_up() {
        for (ns, text) in [
            (0, "0.0 ms"),
            (49_999, "0.0 ms"),
            (50_000, "0.1 ms"),
            (60_057_000, "60.1 ms"),
            (9_999_999_999, "10000.0 ms"),
            (10_050_000_000, "10.1 s"),
        ] {
            assert_eq!(ms(ns), text);
        }
        assert_eq!((percent(1, 16), percent(1, 2000)), ("6.3 %".to_owned(), "0.1 %".to_owned()));
    }

    #[test]
    fn a_fence_is_longer_than_each_run_of_tildes_in_it() {
        for run in [0, 1, 6, 36, 37] {
            let text = format!("a\n{}\n", "~".repeat(run));
            let (first, rest) =
                fenced(&text).split_once('\n').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
            let fence = first.strip_suffix("text").unwrap();
            assert!(fence.len() > run && fence.bytes().all(|byte| byte == b'~'), "{first}");
            assert_eq!(rest, format!("{text}{fence}\n"));
        }
    }
}
