//! Floats as text that keeps them exactly, in the fewest digits.
//!
//! Uses `ryu` with its small tables: the standard library's float printing is as large as its parsing, 20 KB together in
//! the library that an app loads.

/// The JSON text of a float, which a reader converts to the same float. It never looks like a whole number. Infinities and
/// NaN become strings.
#[must_use]
pub fn f64_text(number: f64) -> String {
    if number.is_finite() {
        return ryu::Buffer::new().format_finite(number).to_owned();
    }
    let text = if number.is_nan() { "NaN" } else { "Infinity" };
    format!("\"{}{text}\"", if number < 0.0 { "-" } else { "" })
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
            (1e300, "1e300"),
            (5e-324, "5e-324"),
            (0.1 + 0.2, "0.30000000000000004"),
            (f64::INFINITY, "\"Infinity\""),
            (f64::NEG_INFINITY, "\"-Infinity\""),
            (f64::NAN, "\"NaN\""),
        ] {
            assert_eq!(f64_text(number), text);
        }
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
