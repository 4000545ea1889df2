//! Checks a trace of a stranger before anything else reads it.

use super::Reader;
use super::fields::trace;
use super::packets::{self, Take};
use super::wire::{Fields, Value};
use crate::error::Error;
use std::io::BufRead;

/// Checks that `trace` consists of whole packets, and that its compressed packets can be unpacked; reads at most `most` bytes,
/// and as many of compressed packets. The contents of packets are not checked: readers count malformed ones.
///
/// # Errors
/// The reason.
pub fn check<R: BufRead>(trace: R, most: u64) -> Result<(), String> {
    let mut trace = trace.take(most.saturating_add(1));
    let mut checked = Checked::default();
    let end = packets::walk(&mut trace, &mut checked, most);
    if trace.limit() == 0 {
        return Err(format!("it has more than {most} bytes"));
    }
    match (end.error, checked.bad) {
        (Some(error), _) => Err(format!("it is broken at byte {}: {error}", end.at)),
        (None, Some(why)) => Err(why.to_owned()),
        (None, None) if checked.packets == 0 => Err("it has no packet".to_owned()),
        (None, None) => Ok(()),
    }
}

/// Reads a trace until a packet is valid.
///
/// # Errors
/// [`Error::NoTrace`] if none is.
pub fn check_first<R: BufRead>(mut trace: R) -> Result<(), Error> {
    let mut first = First(Reader::default());
    packets::walk(&mut trace, &mut first, packets::MAX_UNPACKED_BYTES);
    first.0.check()
}

struct First(Reader);

impl Take for First {
    fn packet(&mut self, packet: &[u8]) -> bool {
        self.0.packet(packet) && self.0.check().is_err()
    }

    fn bad(&mut self, why: &'static str, bytes: &[u8]) {
        self.0.bad(why, bytes);
    }
}

/// True if the head of a file begins with a whole packet whose fields are well formed, and that is not text.
pub(crate) fn begins_with_packet(head: &[u8]) -> bool {
    let Some(Ok((trace::packet, Value::Bytes(packet)))) = Fields::of(head).next() else {
        return false;
    };
    let is_text = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~' | 0x80..);
    !packet.iter().all(is_text) && Fields::of(packet).all(|field| field.is_ok())
}

#[derive(Default)]
struct Checked {
    packets: u64,
    bad: Option<&'static str>,
}

impl Take for Checked {
    fn packet(&mut self, _: &[u8]) -> bool {
        self.packets += 1;
        self.bad.is_none()
    }

    fn bad(&mut self, why: &'static str, _: &[u8]) {
        self.bad.get_or_insert(why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_needs_one_valid_packet() {
        // A descriptor of protobuf; the field of another message; half a number and no packet.
        let none: [&[u8]; 3] = [b"\n\x06\n\x04a/bc", b"\n\x02\x01\x02", b"\n\x02\xff\xff\x12\x01a"];
        for bytes in none {
            let error = check_first(bytes).unwrap_err().to_string();
            assert!(error.contains("packets is valid"), "{error}");
            assert_eq!(super::super::read(bytes).unwrap_err().to_string(), error);
            let with_one = [bytes, b"\n\x02\x50\x01"].concat();
            check_first(&*with_one).unwrap();
        }
    }
}
