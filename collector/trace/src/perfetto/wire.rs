//! The wire format of protobuf: numbered fields, read in place. A message is never copied, and nesting costs no memory: a
//! reader of a message decides itself how deep it follows.

/// Reason why a message is rejected.
pub(crate) type Malformed = &'static str;

/// A field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// A varint, or a fixed number of 32 or 64 bits.
    Number(u64),
    /// A string, a message, or packed numbers.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    pub(crate) const fn number(self) -> Result<u64, Malformed> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Bytes(_) => Err("a number has the type of a message"),
        }
    }

    pub(crate) fn int(self) -> Result<i64, Malformed> {
        Ok(self.number()?.cast_signed())
    }

    pub(crate) fn u32(self) -> Result<u32, Malformed> {
        self.number().map(low)
    }

    pub(crate) fn i32(self) -> Result<i32, Malformed> {
        Ok(self.u32()?.cast_signed())
    }

    pub(crate) fn bool(self) -> Result<bool, Malformed> {
        Ok(self.number()? != 0)
    }

    pub(crate) fn f64(self) -> Result<f64, Malformed> {
        Ok(f64::from_bits(self.number()?))
    }

    pub(crate) const fn bytes(self) -> Result<&'a [u8], Malformed> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Number(_) => Err("a message has the type of a number"),
        }
    }
}

/// The low 32 bits, as protobuf narrows numbers.
#[allow(clippy::cast_possible_truncation, reason = "protobuf narrows so")]
pub(crate) const fn low(number: u64) -> u32 {
    number as u32
}

/// The fields of a message. Ends after the first error.
#[derive(Debug, Clone)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) const fn of(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// Bytes that are not read yet; 0 after an error.
    pub(crate) const fn left(&self) -> usize {
        self.rest.len()
    }

    fn field(&mut self) -> Result<(u32, Value<'a>), Malformed> {
        let tag = varint(&mut self.rest)?;
        let number = u32::try_from(tag >> 3).map_err(|_| "a field number is too large")?;
        if number == 0 {
            return Err("a field has the number 0");
        }
        let value = match tag & 7 {
            0 => Value::Number(varint(&mut self.rest)?),
            1 => Value::Number(u64::from_le_bytes(self.fixed()?)),
            2 => {
                let length = usize::try_from(varint(&mut self.rest)?).unwrap_or(usize::MAX);
                let split = self.rest.split_at_checked(length);
                let (bytes, rest) = split.ok_or("a field is longer than its message")?;
                self.rest = rest;
                Value::Bytes(bytes)
            }
            5 => Value::Number(u32::from_le_bytes(self.fixed()?).into()),
            _ => return Err("a field has an unknown wire type"),
        };
        Ok((number, value))
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or("a number is cut off")?;
        self.rest = rest;
        Ok(*bytes)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// Returns the values of these fields of a message. The last value of a field counts.
pub(crate) fn values_of<const N: usize>(
    message: &[u8],
    fields: [u32; N],
) -> Result<[Option<Value<'_>>; N], Malformed> {
    let mut found = [None; N];
    for field in Fields::of(message) {
        let (number, value) = field?;
        let index = fields.iter().position(|&field| field == number);
        if let Some(slot) = index.and_then(|index| found.get_mut(index)) {
            *slot = Some(value);
        }
    }
    Ok(found)
}

/// Returns the numbers of these fields of a message, 0 for one that it lacks.
pub(crate) fn numbers_of<const N: usize>(
    message: &[u8],
    fields: [u32; N],
) -> Result<[u64; N], Malformed> {
    let mut found = [0; N];
    for (slot, value) in found.iter_mut().zip(values_of(message, fields)?) {
        *slot = value.map_or(Ok(0), Value::number)?;
    }
    Ok(found)
}

/// Returns the texts or messages in these fields of a message, empty for one that it lacks.
pub(crate) fn bytes_of<const N: usize>(
    message: &[u8],
    fields: [u32; N],
) -> Result<[&[u8]; N], Malformed> {
    let mut found: [&[u8]; N] = [&[]; N];
    for (slot, value) in found.iter_mut().zip(values_of(message, fields)?) {
        *slot = value.map_or(Ok(&[][..]), Value::bytes)?;
    }
    Ok(found)
}

/// Takes a number of seven bits a byte. A byte beyond the tenth is an error, bits beyond the 64th are dropped.
#[inline]
pub(crate) fn varint(rest: &mut &[u8]) -> Result<u64, Malformed> {
    let mut number = 0;
    for (index, &byte) in rest.iter().enumerate().take(10) {
        number |= u64::from(byte & 0x7f).wrapping_shl(7 * u32::try_from(index).unwrap_or(0));
        if byte & 0x80 == 0 {
            *rest = rest.get(index + 1..).unwrap_or_default();
            return Ok(number);
        }
    }
    Err(if rest.len() < 10 { "a number is cut off" } else { "a number has more than ten bytes" })
}

/// Writes a number of seven bits a byte.
fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

/// Writes a field that is a number.
pub(crate) fn put_number(out: &mut Vec<u8>, field: u32, number: u64) {
    put_varint(out, u64::from(field) << 3);
    put_varint(out, number);
}

/// Writes a field of this many bytes, and the first of them.
pub(crate) fn put_bytes(out: &mut Vec<u8>, field: u32, length: usize, bytes: &[u8]) {
    put_varint(out, u64::from(field) << 3 | 2);
    put_varint(out, length as u64);
    out.extend_from_slice(bytes);
}

/// The numbers of a repeated field: packed (bytes), or one of several single ones.
pub(crate) fn numbers<'a>(
    value: Value<'a>,
) -> impl Iterator<Item = Result<u64, Malformed>> + use<'a> {
    let (single, mut packed) = match value {
        Value::Number(number) => (Some(number), &[][..]),
        Value::Bytes(bytes) => (None, bytes),
    };
    let packed = std::iter::from_fn(move || {
        if packed.is_empty() {
            return None;
        }
        let number = varint(&mut packed);
        if number.is_err() {
            packed = &[];
        }
        Some(number)
    });
    single.map(Ok).into_iter().chain(packed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(message: &[u8]) -> Result<Vec<(u32, Value<'_>)>, Malformed> {
        Fields::of(message).collect()
    }

    #[test]
    fn fields_of_every_wire_type_are_read() {
        let message = [
            &[0x08, 0x96, 0x01][..],
            &[0x11, 1, 0, 0, 0, 0, 0, 0, 0x80],
            &[0x1a, 2, b'h', b'i'],
            &[0x25, 7, 0, 0, 0],
        ]
        .concat();
        let expected = [
            (1, Value::Number(150)),
            (2, Value::Number(0x8000_0000_0000_0001)),
            (3, Value::Bytes(b"hi")),
            (4, Value::Number(7)),
        ];
        assert_eq!(all(&message).unwrap(), expected);
    }

    #[test]
    fn malformed_fields_end_a_message() {
        for (message, why) in [
            (&[0x08][..], "a number is cut off"),
            (&[0x08, 0x80], "a number is cut off"),
            (&[0x11, 1, 2], "a number is cut off"),
            (&[0x1a, 2, b'h'], "a field is longer than its message"),
            (&[0x1a, 0xff, 0xff, 0xff, 0xff, 0x0f], "a field is longer than its message"),
            (&[0x0b], "a field has an unknown wire type"),
            (&[0x00, 0x00], "a field has the number 0"),
            (
                &[0x08, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255],
                "a number has more than ten bytes",
            ),
        ] {
            assert_eq!(all(message), Err(why), "{message:?}");
            assert_eq!(Fields::of(message).count(), 1, "{message:?}");
        }
    }

    #[test]
    fn repeated_numbers_are_packed_or_not() {
        let found: Result<Vec<u64>, _> = numbers(Value::Bytes(&[1, 0x96, 0x01])).collect();
        assert_eq!(found, Ok(vec![1, 150]));
        assert_eq!(numbers(Value::Number(9)).collect::<Vec<_>>(), [Ok(9)]);
        assert_eq!(numbers(Value::Bytes(&[1, 0x80])).last(), Some(Err("a number is cut off")));
    }

    /// A number the slow way: by its bits.
    fn slow(bytes: &[u8]) -> Option<(u64, usize)> {
        let end = bytes.iter().take(10).position(|byte| byte & 0x80 == 0)?;
        let bits = bytes[..=end].iter().flat_map(|byte| (0..7).map(move |bit| byte >> bit & 1));
        let number = (0..64).zip(bits).fold(0, |sum, (bit, set)| sum | u64::from(set) << bit);
        Some((number, end + 1))
    }

    proptest::proptest! {
        #[test]
        fn numbers_are_those_of_a_naive_reader(bytes in proptest::collection::vec(0_u8.., 0..14)) {
            let mut rest = &bytes[..];
            let found = varint(&mut rest).ok().map(|number| (number, bytes.len() - rest.len()));
            proptest::prop_assert_eq!(found, slow(&bytes));
        }

        #[test]
        fn no_bytes_are_too_much_for_it(bytes: Vec<u8>) {
            let _ = all(&bytes);
        }
    }
}
