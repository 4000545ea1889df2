//! Base64 of digests and metadata.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Encodes with `-` and `_`, without padding.
pub(crate) fn encode_url_safe(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let number = (0..3)
            .fold(0, |number, at| number << 8 | group.get(at).map_or(0, |&byte| usize::from(byte)));
        for place in 0..=group.len() {
            let digit = number >> (18 - 6 * place) & 63;
            text.extend(DIGITS.get(digit).copied().map(char::from));
        }
    }
    text
}

/// Encodes with `+` and `/`, padded by `=` to a multiple of four digits.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = encode_url_safe(bytes).replace('-', "+").replace('_', "/");
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    text
}

/// Decodes the text that [`encode_url_safe`] makes of some bytes; `None` for any other text.
pub(crate) fn decode_url_safe(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let (mut number, mut bits) = (0, 0);
    for byte in text.bytes() {
        let digit = DIGITS.iter().position(|&digit| digit == byte)?;
        number = number << 6 | digit;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(number >> bits).ok()?);
            number &= (1 << bits) - 1;
        }
    }
    (number == 0 && bits < 6).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_are_encoded_as_the_crate_does(bytes: Vec<u8>) {
            prop_assert_eq!(encode(&bytes), STANDARD.encode(&bytes));
            let text = URL_SAFE_NO_PAD.encode(&bytes);
            prop_assert_eq!(encode_url_safe(&bytes), text.clone());
            prop_assert_eq!(decode_url_safe(&text), Some(bytes));
        }

        #[test]
        fn the_same_texts_are_decoded(text in "[A-Da-d0-9_=+é-]{0,9}") {
            prop_assert_eq!(decode_url_safe(&text), URL_SAFE_NO_PAD.decode(&text).ok());
        }
    }
}
