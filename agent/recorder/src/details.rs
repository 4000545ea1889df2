//! Details of a record: category, arguments, flows, processor time, given times.
//!
//! They are a sequence of items, each with a code; all codes are here. The app's threads store them ([`Encoder`] allocates
//! nothing), and the thread that drains reads them ([`Details`]); bytes that are no detail end the list.

/// Maximum size of a record's details.
pub const MAX_DETAIL_BYTES: usize = 1000;
/// Maximum size of a category or of an argument's key; longer ones are cut.
pub const MAX_KEY_BYTES: usize = 100;
/// Maximum size of an argument's text; longer ones are cut.
pub const MAX_TEXT_BYTES: usize = 500;

const CATEGORY: u8 = 1;
const ARGUMENT: u8 = 2;
const FLOW: u8 = 3;
const CPU: u8 = 4;
const LEFT_OUT: u8 = 5;
const AT: u8 = 6;
/// Bytes of the item that counts arguments left out, for which there is always room.
const LEFT_OUT_BYTES: usize = 3;

/// Value of an argument.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// Text; may be any bytes.
    Text(&'a [u8]),
    /// A whole number.
    Int(i64),
    /// A number.
    Real(f64),
    /// True or false.
    Bool(bool),
}

/// Kind of a flow's point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum FlowPoint {
    /// The flow begins at the record.
    Begin = 0,
    /// It passes through.
    Step = 1,
    /// It ends.
    End = 2,
}

impl FlowPoint {
    /// The point with that number.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Begin,
            1 => Self::Step,
            2 => Self::End,
            _ => return None,
        })
    }
}

/// A detail of a record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Detail<'a> {
    /// The category of the record.
    Category(&'a [u8]),
    /// An argument: key and value.
    Argument(&'a [u8], Value<'a>),
    /// A point of the flow with that id.
    Flow(FlowPoint, u64),
    /// Processor time of the thread, ns.
    Cpu(u64),
    /// Number of details for which there was no room.
    LeftOut(u16),
    /// The time of the record, ns, if its line has a later one.
    At(u64),
}

/// The details of a record, and the exact value of a counter with a fraction.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Details<'a> {
    bytes: &'a [u8],
    /// The exact value.
    pub real: Option<f64>,
}

impl<'a> Details<'a> {
    /// Details that [`Encoder`] has stored.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, real: None }
    }

    /// True if there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.real.is_none()
    }

    /// The bytes, as [`Encoder`] has stored them.
    #[must_use]
    pub const fn raw(&self) -> &'a [u8] {
        self.bytes
    }

    /// The bytes without the processor time, which is the first of them if it is there.
    pub(crate) fn without_cpu(&self) -> &'a [u8] {
        let has_cpu = self.bytes.first() == Some(&CPU);
        self.bytes.get(if has_cpu { 16 } else { 0 }..).unwrap_or_default()
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.bytes.split_first_chunk::<N>()?;
        self.bytes = rest;
        Some(*taken)
    }

    fn take_bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        Some(taken)
    }

    fn take_key(&mut self) -> Option<&'a [u8]> {
        let [len] = self.take()?;
        self.take_bytes(len.into())
    }
}

impl<'a> Iterator for Details<'a> {
    type Item = Detail<'a>;

    fn next(&mut self) -> Option<Detail<'a>> {
        let [code] = self.take()?;
        Some(match code {
            CATEGORY => Detail::Category(self.take_key()?),
            ARGUMENT => {
                let [kind] = self.take()?;
                let key = self.take_key()?;
                Detail::Argument(
                    key,
                    match kind {
                        0 => {
                            let len = u16::from_le_bytes(self.take()?);
                            Value::Text(self.take_bytes(len.into())?)
                        }
                        1 => Value::Int(i64::from_le_bytes(self.take()?)),
                        2 => Value::Real(f64::from_le_bytes(self.take()?)),
                        3 => Value::Bool(self.take::<1>()? != [0]),
                        _ => return None,
                    },
                )
            }
            FLOW => {
                let [point] = self.take()?;
                Detail::Flow(FlowPoint::from_number(point)?, u64::from_le_bytes(self.take()?))
            }
            CPU => {
                // Two whole words.
                self.take::<7>()?;
                Detail::Cpu(u64::from_le_bytes(self.take()?))
            }
            LEFT_OUT => Detail::LeftOut(u16::from_le_bytes(self.take()?)),
            AT => Detail::At(u64::from_le_bytes(self.take()?)),
            _ => return None,
        })
    }
}

/// A detail as two words, for the words that precede a record's bytes.
#[must_use]
pub const fn cpu_words(ns: u64) -> [u64; 2] {
    [CPU as u64, ns]
}

/// [`Detail::At`] in its stored form.
pub fn at_item(ns: u64) -> impl Iterator<Item = u8> {
    std::iter::once(AT).chain(ns.to_le_bytes())
}

/// Stores details on the stack of the recording thread. Counts details for which there is no room.
#[derive(Debug, Clone)]
pub struct Encoder {
    bytes: [u8; MAX_DETAIL_BYTES],
    len: usize,
    left_out: u16,
}

impl Default for Encoder {
    fn default() -> Self {
        Self { bytes: [0; MAX_DETAIL_BYTES], len: 0, left_out: 0 }
    }
}

impl Encoder {
    /// Appends an item made of these parts, completely or not at all; `false` if there is no room.
    fn put(&mut self, parts: &[&[u8]]) -> bool {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if self.len + len > MAX_DETAIL_BYTES - LEFT_OUT_BYTES {
            return false;
        }
        for part in parts {
            // A copy of slices can panic, on the app's thread.
            let room = self.bytes.iter_mut().skip(self.len);
            room.zip(*part).for_each(|(to, byte)| *to = *byte);
            self.len += part.len();
        }
        true
    }

    /// Appends the category. Nothing for an empty one.
    pub fn category(&mut self, name: &[u8]) {
        let name = cut(name, MAX_KEY_BYTES);
        let is_put = name.is_empty() || self.put(&[&[CATEGORY, low(name.len())], name]);
        self.leave_out((!is_put).into());
    }

    /// Appends an argument.
    pub fn argument(&mut self, key: &[u8], value: Value<'_>) {
        let key = cut(key, MAX_KEY_BYTES);
        let head = |kind| [ARGUMENT, kind, low(key.len())];
        let is_put = match value {
            Value::Text(text) => {
                let text = cut(text, MAX_TEXT_BYTES);
                let len = u16::try_from(text.len()).unwrap_or(0).to_le_bytes();
                self.put(&[&head(0), key, &len, text])
            }
            Value::Int(number) => self.put(&[&head(1), key, &number.to_le_bytes()]),
            Value::Real(number) => self.put(&[&head(2), key, &number.to_le_bytes()]),
            Value::Bool(is) => self.put(&[&head(3), key, &[is.into()]]),
        };
        self.leave_out((!is_put).into());
    }

    /// Appends a point of the flow with that id.
    pub fn flow(&mut self, point: FlowPoint, id: u64) {
        let is_put = self.put(&[&[FLOW, point as u8], &id.to_le_bytes()]);
        self.leave_out((!is_put).into());
    }

    /// Counts details that are left out.
    pub fn leave_out(&mut self, count: usize) {
        self.left_out = self.left_out.saturating_add(u16::try_from(count).unwrap_or(u16::MAX));
    }

    /// Returns the details, with the count of arguments left out. Nothing may follow.
    pub fn finish(&mut self) -> &[u8] {
        if self.left_out > 0
            && let Some([code, count @ ..]) =
                self.bytes.get_mut(self.len..self.len + LEFT_OUT_BYTES)
        {
            *code = LEFT_OUT;
            count.iter_mut().zip(self.left_out.to_le_bytes()).for_each(|(to, byte)| *to = byte);
            self.len += LEFT_OUT_BYTES;
            self.left_out = 0;
        }
        self.bytes.get(..self.len).unwrap_or(&[])
    }
}

/// A length that was cut to less than 256.
fn low(len: usize) -> u8 {
    u8::try_from(len).unwrap_or(0)
}

/// At most `most` bytes, without a part of a character at the end.
#[must_use]
pub fn cut(text: &[u8], most: usize) -> &[u8] {
    let Some(mut short) = text.get(..most).filter(|_| text.len() > most) else { return text };
    let is_part = |byte: u8| byte & 0xc0 == 0x80;
    if text.get(most).is_some_and(|&byte| is_part(byte)) {
        // A character has at most three bytes after its first one.
        for _ in 0..3 {
            let Some((&last, rest)) = short.split_last() else { break };
            short = rest;
            if !is_part(last) {
                break;
            }
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone, PartialEq)]
    enum Item {
        Category(Vec<u8>),
        Text(Vec<u8>, Vec<u8>),
        Int(Vec<u8>, i64),
        Real(Vec<u8>, f64),
        Bool(Vec<u8>, bool),
        Flow(u8, u64),
    }

    fn item() -> impl Strategy<Value = Item> {
        let bytes = |most| prop::collection::vec(any::<u8>(), 0..most);
        prop_oneof![
            bytes(130).prop_map(Item::Category),
            (bytes(130), bytes(600)).prop_map(|(key, text)| Item::Text(key, text)),
            (bytes(9), any::<i64>()).prop_map(|(key, number)| Item::Int(key, number)),
            (bytes(9), -1e300..1e300).prop_map(|(key, number)| Item::Real(key, number)),
            (bytes(9), any::<bool>()).prop_map(|(key, is)| Item::Bool(key, is)),
            (0u8..3, any::<u64>()).prop_map(|(point, id)| Item::Flow(point, id)),
        ]
    }

    proptest! {
        /// Against a list with a sum of sizes.
        #[test]
        fn details_come_back_in_order_and_those_without_room_are_counted(
            items in prop::collection::vec(item(), 0..30),
        ) {
            let (mut encoder, mut expected, mut used, mut left_out) =
                (Encoder::default(), Vec::new(), 0, 0);
            for item in &items {
                let short = |text: &Vec<u8>, most| cut(text, most).len();
                let size = match item {
                    Item::Category(name) => 2 + short(name, 100),
                    Item::Text(key, text) => 5 + short(key, 100) + short(text, 500),
                    Item::Int(key, _) | Item::Real(key, _) => 11 + key.len(),
                    Item::Bool(key, _) => 4 + key.len(),
                    Item::Flow(..) => 10,
                };
                let is_none = matches!(item, Item::Category(name) if name.is_empty());
                let fits = is_none || used + size <= MAX_DETAIL_BYTES - 3;
                if fits && !is_none {
                    used += size;
                    expected.push(match item {
                        Item::Category(name) => Detail::Category(cut(name, 100)),
                        Item::Text(key, text) => {
                            Detail::Argument(cut(key, 100), Value::Text(cut(text, 500)))
                        }
                        Item::Int(key, number) => Detail::Argument(key, Value::Int(*number)),
                        Item::Real(key, number) => Detail::Argument(key, Value::Real(*number)),
                        Item::Bool(key, is) => Detail::Argument(key, Value::Bool(*is)),
                        Item::Flow(point, id) => {
                            Detail::Flow(FlowPoint::from_number(*point).unwrap(), *id)
                        }
                    });
                } else if !fits {
                    left_out += 1;
                }
                match item {
                    Item::Category(name) => encoder.category(name),
                    Item::Text(key, text) => encoder.argument(key, Value::Text(text)),
                    Item::Int(key, number) => encoder.argument(key, Value::Int(*number)),
                    Item::Real(key, number) => encoder.argument(key, Value::Real(*number)),
                    Item::Bool(key, is) => encoder.argument(key, Value::Bool(*is)),
                    Item::Flow(point, id) => {
                        encoder.flow(FlowPoint::from_number(*point).unwrap(), *id);
                    }
                }
            }
            if left_out > 0 {
                expected.push(Detail::LeftOut(left_out));
            }
            let details = encoder.finish();
            prop_assert_eq!(Details::new(details).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(cut("aä".as_bytes(), 2), b"a");
        assert_eq!(cut("aä".as_bytes(), 3), "aä".as_bytes());
        assert_eq!(cut("🎉🎉".as_bytes(), 7), "🎉".as_bytes());
        assert_eq!(cut(&[0x80; 9], 8).len(), 5, "bytes that are no characters");
        assert_eq!(cut(b"abc", 2), b"ab");
    }
}
