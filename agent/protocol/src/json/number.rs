//! Whole numbers from the text of JSON.

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
