//! Records with details, fractions, or given times.
//!
//! A rich record is one record of the pool, so its details are lost, cut out and dropped with it. Its bytes are
//! [`Rich::head`], the number of kinds that have one (two for a complete event: begin and end), the
//! [details](crate::details), the track and the name.

use crate::details::Details;
use crate::packed::Packed;
use crate::record::Kind;

/// Letter of a complete event, whose begin and end are given. It exists only in the recorder; in the text it is a section,
/// or an asynchronous one.
pub const COMPLETE: u8 = b'X';
/// Flag of the head: the number is the bits of an f64.
pub const IS_REAL: u8 = 1;
/// Flag of the head for bytes from Kotlin: the thread's processor time must be added.
pub const WANTS_CPU: u8 = 2;

/// A parsed record with details.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rich<'a> {
    /// A record of a marker's kind.
    Marker(Packed<'a>, Details<'a>),
    /// A section with given begin and end.
    Complete(Complete<'a>),
}

/// A section with given begin and end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Complete<'a> {
    /// Boot time of the begin, ns.
    pub begin_ns: u64,
    /// Boot time of the end, ns.
    pub end_ns: u64,
    /// Name of the section.
    pub name: &'a [u8],
    /// Details of the section.
    pub details: Details<'a>,
}

impl<'a> Rich<'a> {
    /// The word before the numbers, details and names.
    #[inline]
    #[must_use]
    pub const fn head(letter: u8, flags: u8, track_bytes: usize, detail_bytes: usize) -> u64 {
        letter as u64
            | (flags as u64) << 8
            | (track_bytes as u64 & 0xffff) << 16
            | (detail_bytes as u64 & 0xffff) << 32
    }

    /// Parses the bytes of a record from [`Rich::head`]; `None` if they are not such a record.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (&[letter, flags, t0, t1, d0, d1, _, _], rest) = bytes.split_first_chunk::<8>()?;
        let kind = Kind::from_letter(letter);
        let has_number = letter == COMPLETE || kind?.has_number();
        let (number, rest) = word(rest, has_number)?;
        let (end_ns, rest) = word(rest, letter == COMPLETE)?;
        let (details, rest) = rest.split_at_checked(u16::from_le_bytes([d0, d1]).into())?;
        let (track, name) = rest.split_at_checked(u16::from_le_bytes([t0, t1]).into())?;
        let mut details = Details::new(details);
        let Some(kind) = kind else {
            return Some(Self::Complete(Complete { begin_ns: number, end_ns, name, details }));
        };
        let mut number = number.cast_signed();
        if flags & IS_REAL != 0 {
            let real = f64::from_bits(number.cast_unsigned());
            details.real = Some(real);
            number = whole(real);
        }
        Some(Self::Marker(Packed { kind, track, name, number }, details))
    }
}

/// The whole part of a number.
#[expect(
    clippy::cast_possible_truncation,
    reason = "`as` saturates; the fraction is in the details"
)]
const fn whole(real: f64) -> i64 {
    real as i64
}

/// The word at the beginning, if there is one, and the rest.
fn word(bytes: &[u8], is_there: bool) -> Option<(u64, &[u8])> {
    if !is_there {
        return Some((0, bytes));
    }
    let (word, rest) = bytes.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*word), rest))
}

/// Makes the bytes of a record of one of these kinds, as the app's threads store it. For the thread that drains.
#[must_use]
pub fn stored(kind: Kind, number: i64, details: &[u8], name: &[u8]) -> Vec<u8> {
    let mut bytes = Rich::head(kind as u8, 0, 0, details.len()).to_le_bytes().to_vec();
    if kind.has_number() {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(details);
    bytes.extend_from_slice(name);
    bytes
}

/// Removes the processor time from the bytes of a record, if it has one.
pub fn remove_cpu(bytes: &mut Vec<u8>) {
    let Some(Rich::Marker(Packed { kind, .. }, details)) = Rich::parse(bytes) else { return };
    let (before, after) = (details.raw().len(), details.without_cpu().len());
    // It is the first detail; the details come after the head and the number.
    let begin = if kind.has_number() { 16 } else { 8 };
    bytes.drain(begin..begin + before - after);
    if let (Some(len), Ok(after)) = (bytes.get_mut(4..6), u16::try_from(after)) {
        len.copy_from_slice(&after.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::details::{Detail, Encoder, FlowPoint, cpu_words};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_counter_comes_back_with_its_bits_and_details(is_real: bool, bits: u64, id: u64) {
            let mut encoder = Encoder::default();
            encoder.flow(FlowPoint::Step, id);
            let details = encoder.finish();
            let flags = if is_real { IS_REAL } else { 0 };
            let mut bytes = Rich::head(b'C', flags, 0, details.len()).to_le_bytes().to_vec();
            bytes.extend(bits.to_le_bytes());
            bytes.extend(details);
            bytes.extend(b"name");
            let Some(Rich::Marker(packed, found)) = Rich::parse(&bytes) else { panic!("a record") };
            prop_assert_eq!(found.real.map(f64::to_bits), is_real.then_some(bits));
            prop_assert_eq!(found.collect::<Vec<_>>(), [Detail::Flow(FlowPoint::Step, id)]);
            prop_assert!(packed.to_text(7).starts_with(b"C|7|name|"));
        }

        #[test]
        fn any_bytes_are_parsed_without_panic(bytes: Vec<u8>, letter in 0usize..10) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() {
                *first = b"BESFCINGHX"[letter];
            }
            match Rich::parse(&bytes) {
                Some(Rich::Marker(packed, details)) => {
                    let _ = packed.to_text(1);
                    details.count();
                }
                Some(Rich::Complete(complete)) => drop(complete.details.count()),
                None => {}
            }
        }
    }

    #[test]
    fn a_record_without_its_processor_time_has_all_else() {
        let mut encoder = Encoder::default();
        encoder.flow(FlowPoint::Step, 7);
        for (letter, track) in [(b'B', ""), (b'S', ""), (b'G', "track")] {
            let record = |cpu: &[u64]| {
                let details: Vec<u8> = cpu.iter().flat_map(|word| word.to_le_bytes()).collect();
                let details = [&details, encoder.clone().finish()].concat();
                let head = Rich::head(letter, 0, track.len(), details.len());
                let mut bytes = head.to_le_bytes().to_vec();
                if letter != b'B' {
                    bytes.extend(9i64.to_le_bytes());
                }
                [&bytes, &*details, track.as_bytes(), b"name"].concat()
            };
            let mut bytes = record(&cpu_words(1_000));
            assert_ne!(bytes, record(&[]));
            remove_cpu(&mut bytes);
            assert_eq!(bytes, record(&[]));
            remove_cpu(&mut bytes);
            assert_eq!(bytes, record(&[]), "there is none");
        }
    }

    #[test]
    fn a_complete_event_comes_back_with_its_times() {
        let mut bytes = Rich::head(COMPLETE, 0, 0, 0).to_le_bytes().to_vec();
        bytes.extend([5u64.to_le_bytes(), 9u64.to_le_bytes()].concat());
        bytes.extend(b"load");
        let details = Details::default();
        let complete = Complete { begin_ns: 5, end_ns: 9, name: b"load", details };
        assert_eq!(Rich::parse(&bytes), Some(Rich::Complete(complete)));
        assert_eq!(Rich::parse(&bytes[..20]), None);
    }
}
