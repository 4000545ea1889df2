//! Numbers with a fraction, as whole millionths.
//!
//! The agent computes with them without floats: their reading and printing take 20 KB of the standard
//! library.

use std::fmt;

/// Decimal places.
const PLACES: u8 = 6;
const ONE: u64 = 1_000_000;

/// A number with up to six decimal places: `0.25`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Decimal(i64);

impl Decimal {
    /// Zero.
    pub const ZERO: Self = Self(0);

    /// A whole number.
    #[must_use]
    pub const fn whole(number: i32) -> Self {
        Self::millionths(number as i64 * ONE.cast_signed())
    }

    /// Number of millionths.
    #[must_use]
    pub const fn millionths(number: i64) -> Self {
        Self(number)
    }

    /// The number in millionths.
    #[must_use]
    pub const fn in_millionths(self) -> i64 {
        self.0
    }

    /// A quotient, rounded down; 0 if the divisor is. It is exact for divisors below 2^44.
    #[must_use]
    pub fn ratio(number: u64, divisor: u64) -> Self {
        let whole = number.checked_div(divisor).unwrap_or(0).saturating_mul(ONE);
        let rest = number.checked_rem(divisor).unwrap_or(0);
        let fraction = rest.saturating_mul(ONE).checked_div(divisor).unwrap_or(0);
        Self(whole.saturating_add(fraction).try_into().unwrap_or(i64::MAX))
    }

    /// Multiplies the number by a unit and rounds down; with a second in ns as the unit, converts seconds to ns. Returns 0
    /// for a negative number.
    #[must_use]
    pub fn of(self, unit: u64) -> u64 {
        let millionths = u64::try_from(self.0).unwrap_or(0);
        let (whole, fraction) = (millionths / ONE, millionths % ONE);
        // The unit's own whole and rest, so that no product exceeds 64 bits.
        let part = fraction.saturating_mul(unit / ONE) + fraction * (unit % ONE) / ONE;
        whole.saturating_mul(unit).saturating_add(part)
    }

    /// The nearest one to a float.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a power of ten that is exact")]
    #[expect(clippy::cast_possible_truncation, reason = "`as` saturates")]
    pub fn from_f64(number: f64) -> Self {
        let half = if number < 0.0 { -0.5 } else { 0.5 };
        Self((number * ONE as f64 + half) as i64)
    }

    /// The nearest float.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "the nearest float is wanted")]
    pub fn to_f64(self) -> f64 {
        self.0 as f64 / ONE as f64
    }

    /// The digits: with this many decimal places, or as many as are needed.
    #[must_use]
    pub fn text(self, places: Option<usize>) -> String {
        const ALL: usize = PLACES as usize;
        let shown = places.unwrap_or(ALL).min(ALL);
        let unit = (shown..ALL).fold(1, |unit, _| unit * 10);
        let rounded = (self.0.unsigned_abs() + unit / 2) / unit * unit;
        let mut text = String::new();
        if self.0 < 0 {
            text.push('-');
        }
        super::push_u64(&mut text, rounded / ONE);
        text.push('.');
        // The leading 1 keeps the zeros after the point.
        let mut fraction = String::new();
        super::push_u64(&mut fraction, ONE + rounded % ONE);
        text.push_str(fraction.get(1..=shown).unwrap_or_default());
        if places.is_none() {
            text.truncate(text.trim_end_matches('0').len());
        }
        text.truncate(text.trim_end_matches('.').len());
        text
    }
}

/// Shows as many decimal places as the precision says, without one as many as are needed.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(f.precision()))
    }
}

/// Reads a number of JSON, rounded to millionths; larger numbers become the largest value.
pub(super) fn parse(text: &str) -> Decimal {
    let (digits, is_negative) = text.strip_prefix('-').map_or((text, false), |rest| (rest, true));
    let (digits, exponent) = digits.split_once(['e', 'E']).unwrap_or((digits, "0"));
    // Beyond what digits could make up for: 4 MiB of them at most.
    const FAR: i64 = 1 << 32;
    let far = if exponent.starts_with('-') { -FAR } else { FAR };
    let exponent = super::number::parse_i64(exponent.strip_prefix('+').unwrap_or(exponent));
    let mut power = exponent.unwrap_or(far).clamp(-FAR, FAR) + i64::from(PLACES);
    let mut number = 0u64;
    let mut is_fraction = false;
    for byte in digits.bytes() {
        let Some(digit) = char::from(byte).to_digit(10) else {
            is_fraction = true;
            continue;
        };
        // Digits that no longer fit only count by their place.
        match number.checked_mul(10).and_then(|tens| tens.checked_add(digit.into())) {
            Some(more) => {
                number = more;
                power -= i64::from(is_fraction);
            }
            None => power += i64::from(!is_fraction),
        }
    }
    while power > 0 && number > 0 && number < u64::MAX {
        number = number.saturating_mul(10);
        power -= 1;
    }
    let mut last = 0;
    while power < 0 && (number > 0 || last > 0) {
        (number, last) = (number / 10, number % 10);
        power += 1;
    }
    let rounded = i64::try_from(number + u64::from(last >= 5)).unwrap_or(i64::MAX);
    Decimal(if is_negative { -rounded } else { rounded })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_of_json_are_read_to_the_nearest_millionth() {
        for (text, millionths) in [
            ("0", 0),
            ("-0.0", 0),
            ("0.5", 500_000),
            ("59.94", 59_940_000),
            ("1e3", 1_000_000_000),
            ("1E-3", 1000),
            ("12.5e+1", 125_000_000),
            ("-1.5", -1_500_000),
            ("0.0000005", 1),
            ("0.00000049999999999999999999999999", 0),
            ("1e-400", 0),
            ("1e-99999999999999999999", 0),
            ("1e400", i64::MAX),
            ("-1e99999999999999999999", -i64::MAX),
            ("0e99999999999999999999", 0),
            ("9223372036854.775807", i64::MAX),
            ("9223372036854775807", i64::MAX),
            ("33.333333333333333333333333333333333", 33_333_333),
        ] {
            assert_eq!(parse(text), Decimal(millionths), "{text}");
        }
        let long = format!("0.{}1e{}", "0".repeat(5000), 5001);
        assert_eq!(parse(&long), Decimal::whole(1));
    }

    #[test]
    fn texts_have_the_places_that_are_asked_for() {
        let text = |millionths| Decimal::millionths(millionths).to_string();
        assert_eq!(text(500_000), "0.5");
        assert_eq!(text(120_000_000), "120");
        assert_eq!(text(-1), "-0.000001");
        assert_eq!(text(i64::MIN), "-9223372036854.775808");
        assert_eq!(format!("{:.2}", Decimal::millionths(1_995_000)), "2.00");
        assert_eq!(format!("{:.1}", Decimal::millionths(4_949_999)), "4.9");
        assert_eq!(format!("{:.0}", Decimal::millionths(1_500_000)), "2");
    }

    #[test]
    fn quotients_and_shares_are_rounded_down() {
        assert_eq!(Decimal::ratio(1, 3), Decimal(333_333));
        assert_eq!(Decimal::ratio(7, 0), Decimal::ZERO);
        assert_eq!(Decimal::ratio(u64::MAX, 1), Decimal(i64::MAX));
        assert_eq!(Decimal(500_000).of(1_000_000_000), 500_000_000);
        assert_eq!(Decimal(i64::MAX).of(u64::MAX), u64::MAX);
        assert_eq!(Decimal::whole(-1).of(1000), 0);
    }

    proptest! {
        #[test]
        fn texts_are_read_as_they_were_written(millionths: i64) {
            let number = Decimal(millionths.max(-i64::MAX));
            prop_assert_eq!(parse(&number.to_string()), number);
        }

        #[test]
        fn floats_of_any_text_are_near(number in -1e6f64..1e6, places in 0usize..12) {
            for text in [format!("{number:.places$}"), format!("{number:e}")] {
                let float: f64 = text.parse().unwrap();
                prop_assert!((parse(&text).to_f64() - float).abs() <= 5.1e-7, "{text}");
                prop_assert!((Decimal::from_f64(float).to_f64() - float).abs() <= 6e-7, "{text}");
            }
        }

        #[test]
        fn shares_are_those_of_128_bits(
            millionths in prop_oneof![0..i64::MAX, 0..10_000_000_000i64],
            unit in prop_oneof![any::<u64>(), 0..10_000_000_000u64],
        ) {
            let exact = i128::from(millionths) * i128::from(unit) / i128::from(ONE);
            let exact = u64::try_from(exact).unwrap_or(u64::MAX);
            prop_assert_eq!(Decimal(millionths).of(unit), exact);
        }

        #[test]
        fn quotients_are_those_of_128_bits(
            number in prop_oneof![any::<u64>(), 0..10_000u64],
            divisor in prop_oneof![1u64..1 << 44, 1u64..1000],
        ) {
            let exact = u128::from(number) * u128::from(ONE) / u128::from(divisor);
            let exact = i64::try_from(exact).unwrap_or(i64::MAX);
            prop_assert_eq!(Decimal::ratio(number, divisor), Decimal(exact));
        }
    }
}
