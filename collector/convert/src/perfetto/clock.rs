//! The clocks of a Perfetto trace.

use super::messages::{ClockPacket, CompressedPackets};
use super::{BOOTTIME, REALTIME};
use prost::Message;
use std::io::{self, Read};
use tracetee_trace::{SAME_CLOCK_MS, offset_ms};

/// Larger packets are skipped.
const MAX_PACKET_BYTES: u64 = 512 << 20;
/// Bytes that one packet of packed packets may unpack to.
const MAX_UNPACKED_BYTES: u64 = 512 << 20;
/// Snapshots that contradict each other are kept up to so many.
const MAX_SNAPSHOTS: usize = 16;

/// Reads the clock snapshots of a Perfetto trace that have the time of day: boot time (ns) and Unix time (ms). One stands
/// for all that agree with it.
///
/// # Errors
/// Errors of the reader; [`io::ErrorKind::InvalidData`] if it is not a Perfetto trace.
pub fn clocks(mut trace: impl io::Read) -> io::Result<Vec<(u64, u64)>> {
    let mut found = Vec::new();
    walk(&mut trace, &mut |packet| {
        found_in(packet, &mut found);
        if let Ok(CompressedPackets { packed: Some(packed) }) = CompressedPackets::decode(packet) {
            let mut unpacked = flate2::read::ZlibDecoder::new(&*packed).take(MAX_UNPACKED_BYTES);
            // Perfetto cannot read a broken trace either.
            let _ = walk(&mut unpacked, &mut |packet| found_in(packet, &mut found));
        }
    })?;
    Ok(found)
}

fn found_in(packet: &[u8], found: &mut Vec<(u64, u64)>) {
    let Ok(ClockPacket { clock_snapshot: Some(snapshot) }) = ClockPacket::decode(packet) else {
        return;
    };
    let of = |id| {
        let clock = snapshot.clocks.iter().find(|clock| clock.clock_id == Some(id));
        clock.and_then(|clock| clock.timestamp)
    };
    let (Some(boot_ns), Some(real_ns)) = (of(BOOTTIME), of(REALTIME)) else { return };
    let clock = (boot_ns, real_ns / 1_000_000);
    let agrees = |&other: &(u64, u64)| {
        offset_ms(other).abs_diff(offset_ms(clock)) <= SAME_CLOCK_MS.unsigned_abs()
    };
    if found.len() < MAX_SNAPSHOTS && !found.iter().any(agrees) {
        found.push(clock);
    }
}

/// Takes each packet; what is cut off at the end is none.
fn walk(trace: &mut impl io::Read, take: &mut impl FnMut(&[u8])) -> io::Result<()> {
    let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let mut offset = 0_u64;
    let mut bytes = Vec::new();
    loop {
        let Some(tag) = varint(trace, &mut offset)? else { return Ok(()) };
        if tag != 0x0a {
            return Err(invalid(format!("there is no packet at byte {offset}: field {tag:#x}")));
        }
        let length = varint(trace, &mut offset)?.unwrap_or(0);
        if length > MAX_PACKET_BYTES {
            return Err(invalid(format!("a packet of {length} bytes at byte {offset}")));
        }
        bytes.clear();
        let read = io::Read::take(&mut *trace, length).read_to_end(&mut bytes)?;
        if read as u64 != length {
            return Ok(());
        }
        offset += length;
        take(&bytes);
    }
}

/// A number of seven bits a byte; none at the end.
fn varint(from: &mut impl io::Read, offset: &mut u64) -> io::Result<Option<u64>> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let mut byte = [0];
        if from.read(&mut byte)? == 0 {
            return Ok(None);
        }
        *offset += 1;
        number |= u64::from(byte[0] & 0x7f) << shift;
        if byte[0] & 0x80 == 0 {
            break;
        }
    }
    Ok(Some(number))
}
