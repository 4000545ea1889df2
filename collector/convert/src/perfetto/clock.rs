//! What clock a Perfetto trace goes by.

use super::messages::TracePacket;
use super::{BOOTTIME, REALTIME};
use prost::Message;
use std::io::{self, Read as _};

/// The first clock snapshot of a Perfetto trace that has the time of day: boot time (ns), and milliseconds
/// since 1970 at it.
///
/// # Errors
/// What the reader says; [`io::ErrorKind::InvalidData`] where it is no Perfetto trace.
pub fn clock(mut trace: impl io::Read) -> io::Result<Option<(u64, u64)>> {
    // Snapshots are among the first packets.
    const MAX_PACKETS: usize = 100_000;
    const MAX_PACKET_BYTES: u64 = 512 << 20;
    let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let mut offset = 0_u64;
    for _ in 0..MAX_PACKETS {
        let Some(tag) = varint(&mut trace, &mut offset)? else { return Ok(None) };
        if tag != 0x0a {
            return Err(invalid(format!("there is no packet at byte {offset}: field {tag:#x}")));
        }
        let length = varint(&mut trace, &mut offset)?.unwrap_or(0);
        if length > MAX_PACKET_BYTES {
            return Err(invalid(format!("a packet of {length} bytes at byte {offset}")));
        }
        let mut bytes = Vec::new();
        let read = io::Read::take(&mut trace, length).read_to_end(&mut bytes)?;
        if read as u64 != length {
            return Ok(None);
        }
        offset += length;
        let Ok(packet) = TracePacket::decode(&*bytes) else { continue };
        let snapshot = packet.clock_snapshot.unwrap_or_default();
        let of = |id| {
            let clock = snapshot.clocks.iter().find(|clock| clock.clock_id == Some(id));
            clock.and_then(|clock| clock.timestamp)
        };
        if let (Some(boot_ns), Some(real_ns)) = (of(BOOTTIME), of(REALTIME)) {
            return Ok(Some((boot_ns, real_ns / 1_000_000)));
        }
    }
    Ok(None)
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
