//! Numbers from the text of JSON, without the standard library's tables for floats.

/// A whole number from 0.
pub(super) fn parse_u64(text: &str) -> Option<u64> {
    text.bytes().try_fold(0u64, |number, byte| {
        let digit = char::from(byte).to_digit(10)?;
        number.checked_mul(10)?.checked_add(digit.into())
    })
}

/// A whole number.
pub(super) fn parse_i64(text: &str) -> Option<i64> {
    match text.strip_prefix('-') {
        Some(digits) => 0i64.checked_sub_unsigned(parse_u64(digits)?),
        None => i64::try_from(parse_u64(text)?).ok(),
    }
}

/// Powers of ten up to this one are exact as `f64`.
const EXACT_POWER: u32 = 22;

/// A number; `None` where it is too large. The digits become a whole number and a power of ten: as
/// both are exact for up to 15 digits and a power up to 22, so is the one operation on them.
pub(super) fn parse_f64(text: &str) -> Option<f64> {
    let (text, sign) = text.strip_prefix('-').map_or((text, 1.0), |digits| (digits, -1.0));
    let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let exponent = exponent.strip_prefix('+').unwrap_or(exponent);
    // Beyond what any number of digits could make up for.
    let limit = if exponent.starts_with('-') { i64::MIN / 4 } else { i64::MAX / 4 };
    let mut power = parse_i64(exponent).unwrap_or(limit).clamp(i64::MIN / 4, i64::MAX / 4);
    let mut mantissa = 0u64;
    let mut is_fraction = false;
    for byte in digits.bytes() {
        let Some(digit) = char::from(byte).to_digit(10) else {
            is_fraction = true;
            continue;
        };
        // Digits that do not fit any more only count by their place.
        match mantissa.checked_mul(10).and_then(|tens| tens.checked_add(digit.into())) {
            Some(more) => {
                mantissa = more;
                power -= i64::from(is_fraction);
            }
            None => power += i64::from(!is_fraction),
        }
    }
    let mut number = to_f64(mantissa);
    if mantissa != 0 {
        let mut left = u32::try_from(power.unsigned_abs().min(1000)).unwrap_or(1000);
        while left > 0 {
            let step = left.min(EXACT_POWER);
            let ten = (0..step).fold(1.0, |product, _| product * 10.0);
            number = if power < 0 { number / ten } else { number * ten };
            left -= step;
        }
    }
    number.is_finite().then_some(sign * number)
}

#[expect(clippy::cast_precision_loss, reason = "rounding to the nearest is what is wanted")]
const fn to_f64(mantissa: u64) -> f64 {
    mantissa as f64
}
