//! Floats as text that keeps them exactly.
//!
//! The standard library's printing of floats is as large as its reading: 20 KB together in the library that an app loads. This
//! one is short: six decimal places where they are exact, else 17 digits, by whole numbers of any size.

use super::Decimal;
use std::fmt::Write;

/// Digits of a decimal number that tell apart any two floats.
const DIGITS: usize = 17;

/// The JSON text of a float, from which a reader gets the same float. It is never that of a whole number. JSON has
/// none for infinities and NaN: a string.
#[must_use]
pub fn f64_text(number: f64) -> String {
    if !number.is_finite() {
        let text = if number.is_nan() { "NaN" } else { "Infinity" };
        return format!("\"{}{text}\"", if number < 0.0 { "-" } else { "" });
    }
    if number == 0.0 {
        return if number.is_sign_negative() { "-0.0" } else { "0.0" }.to_owned();
    }
    let decimal = Decimal::from_f64(number);
    let is_exact = decimal.in_millionths().unsigned_abs() <= 1 << 53
        && decimal.to_f64().to_bits() == number.to_bits();
    if is_exact {
        let mut text = decimal.text(None);
        if !text.contains('.') {
            text.push_str(".0");
        }
        return text;
    }
    let sign = if number.is_sign_negative() { "-" } else { "" };
    let (mut digits, mut exponent) = digits_of(number);
    if digits.len() > DIGITS {
        exponent += i32::try_from(digits.len() - DIGITS).unwrap_or(0);
        let rounds_up = digits.get(DIGITS).is_some_and(|&digit| digit >= 5);
        digits.truncate(DIGITS);
        let mut place = digits.iter_mut().rev();
        while let Some(digit) = place.next().filter(|_| rounds_up) {
            *digit = (*digit + 1) % 10;
            if *digit != 0 {
                break;
            }
        }
        // 9.99… has become 10.
        if digits.first() == Some(&0) {
            digits.insert(0, 1);
        }
    }
    let whole = i32::try_from(digits.len()).unwrap_or(0) - 1 + exponent;
    let zeros = digits.iter().rev().take_while(|&&digit| digit == 0).count();
    digits.truncate(digits.len() - zeros);
    let mut text = sign.to_owned();
    let mut digits = digits.into_iter().map(|digit| char::from(b'0' + digit));
    text.push(digits.next().unwrap_or('0'));
    text.push('.');
    text.extend(digits);
    if text.ends_with('.') {
        text.push('0');
    }
    let _ = write!(text, "e{whole}");
    text
}

/// The decimal digits of a number's absolute value, and the power of ten of the last one.
fn digits_of(number: f64) -> (Vec<u8>, i32) {
    let bits = number.to_bits();
    let (fraction, exponent) = (bits & ((1 << 52) - 1), (bits >> 52) & 0x7ff);
    let mantissa = if exponent == 0 { fraction } else { fraction | 1 << 52 };
    let binary = i32::try_from(exponent.max(1)).unwrap_or(0) - 1075;
    let mut limbs = vec![mantissa];
    // m·2^-e is m·5^e·10^-e.
    let factor = if binary < 0 { 5 } else { 2 };
    (0..binary.unsigned_abs()).for_each(|_| multiply(&mut limbs, factor));
    let mut digits = Vec::new();
    while limbs.iter().any(|&limb| limb != 0) {
        digits.push(divide(&mut limbs, 10));
    }
    digits.reverse();
    (digits, binary.min(0))
}

/// A number of any size: 60 bits each, the lowest first.
const LIMB: u32 = 60;

fn multiply(limbs: &mut Vec<u64>, factor: u64) {
    let mut carry = 0;
    for limb in limbs.iter_mut() {
        let product = *limb * factor + carry;
        (*limb, carry) = (product & ((1 << LIMB) - 1), product >> LIMB);
    }
    if carry > 0 {
        limbs.push(carry);
    }
}

/// Divides and returns the remainder.
fn divide(limbs: &mut [u64], divisor: u64) -> u8 {
    let mut rest = 0;
    for limb in limbs.iter_mut().rev() {
        let value = rest << LIMB | *limb;
        (*limb, rest) = (value / divisor, value % divisor);
    }
    u8::try_from(rest).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn usual_numbers_are_short() {
        for (number, text) in [
            (0.336_491, "0.336491"),
            (3.0, "3.0"),
            (-0.5, "-0.5"),
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1e300, "1.0000000000000001e300"),
            (f64::INFINITY, "\"Infinity\""),
            (f64::NEG_INFINITY, "\"-Infinity\""),
            (f64::NAN, "\"NaN\""),
        ] {
            assert_eq!(f64_text(number), text);
        }
        assert_eq!(f64_text(5e-324), "4.9406564584124654e-324");
        assert_eq!(f64_text(0.1 + 0.2), "3.0000000000000004e-1");
    }

    proptest! {
        /// The oracle is the standard library's reader, and serde_json's.
        #[test]
        fn a_reader_gets_the_same_float(bits: u64, near in -1e9f64..1e9) {
            for number in [f64::from_bits(bits), near, (near * 1e3).round() / 1e3] {
                let text = f64_text(number);
                if number.is_finite() {
                    prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), number.to_bits());
                    let read: serde_json::Value = serde_json::from_str(&text).unwrap();
                    prop_assert!(read.is_f64() && text.len() < 26, "{}", text);
                }
            }
        }
    }
}
