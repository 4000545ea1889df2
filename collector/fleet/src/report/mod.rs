//! Reports: of a fleet ([`fleet`], [`comparison`]) and of one capture ([`single`]), each as a structure that is JSON by
//! itself, as text for a terminal, as one HTML file ([`html`]), and as folded stacks.

pub mod comparison;
pub mod fleet;
mod fleet_text;
pub mod html;
pub mod single;
mod single_text;
mod table;

/// How durations are written: ms with a decimal, s from ten on.
pub(crate) fn ms(ns: u64) -> String {
    if ns >= 10_000_000_000 {
        return format!("{}.{} s", ns / 1_000_000_000, ns / 100_000_000 % 10);
    }
    format!("{}.{} ms", ns / 1_000_000, ns / 100_000 % 10)
}

/// Thousands apart.
pub(crate) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A share, percent, with a decimal.
pub(crate) fn percent(part: u64, of: u64) -> String {
    if of == 0 {
        return "-".to_owned();
    }
    #[allow(clippy::cast_precision_loss, reason = "for people")]
    let share = part as f64 * 100.0 / of as f64;
    format!("{share:.1} %")
}
