//! The packets of a file, one at a time in one buffer; compressed packets are unpacked as they are read.

use super::fields::{packet, trace};
use super::wire::{Fields, varint};
use std::io::{self, BufRead, BufReader, Read};

/// Limit of a packet in bytes. Perfetto's own packets have at most some megabytes.
const MAX_PACKET_BYTES: u64 = 256 << 20;
/// Limit of the bytes that all compressed packets of a file unpack to.
pub(crate) const MAX_UNPACKED_BYTES: u64 = 16 << 30;
/// Fields of a packet: a zlib stream of packets, and one of zstd.
const ZLIB: u32 = packet::compressed_packets;
const ZSTD: u32 = packet::zstd_compressed_packets;

/// Takes packets.
pub(super) trait Take {
    /// Takes a packet. Returns false if no more are wanted.
    fn packet(&mut self, packet: &[u8]) -> bool;

    /// A packet, or a field beside the packets, is malformed.
    fn bad(&mut self, why: &'static str, bytes: &[u8]);
}

/// Result of a walk over the packets.
#[derive(Debug)]
pub(super) struct End {
    /// Bytes of packets that were read whole.
    pub(super) at: u64,
    /// The reason, if the file ended early.
    pub(super) error: Option<io::Error>,
}

/// Passes all packets of `trace` to `take`. Compressed ones may unpack to `most` bytes together.
pub(super) fn walk(trace: &mut dyn BufRead, take: &mut impl Take, most: u64) -> End {
    let mut unpacked = Unpacked { bytes: 0, most };
    let mut stream = Stream { from: trace, at: 0, whole: 0 };
    let error = stream.walk(take, &mut unpacked, false).err();
    End { at: stream.whole, error }
}

/// Bytes that compressed packets unpacked to, and their limit.
struct Unpacked {
    bytes: u64,
    most: u64,
}

struct Stream<'a> {
    from: &'a mut dyn BufRead,
    /// Bytes read.
    at: u64,
    /// Position after the last complete packet.
    whole: u64,
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

impl Stream<'_> {
    /// `is_inner`: these are compressed packets; nested compression is an error.
    fn walk(
        &mut self,
        take: &mut impl Take,
        unpacked: &mut Unpacked,
        is_inner: bool,
    ) -> io::Result<bool> {
        let mut packet = Vec::new();
        loop {
            // Most packets are completely in the buffer, and are read in place.
            let buffer = self.from.fill_buf()?;
            if let Some((bytes, length)) = first_packet(buffer) {
                if !packet_of(bytes, take, unpacked, is_inner)? {
                    return Ok(false);
                }
                self.from.consume(length);
                self.at += length as u64;
                self.whole = self.at;
                continue;
            }
            let Some(tag) = self.varint()? else { return Ok(true) };
            let length = match tag & 7 {
                2 => self.varint()?.ok_or_else(cut)?,
                0 => {
                    self.varint()?.ok_or_else(cut)?;
                    continue;
                }
                1 => 8,
                5 => 4,
                _ => return Err(invalid(format!("there is no packet: field {tag:#x}"))),
            };
            if length > MAX_PACKET_BYTES {
                return Err(invalid(format!("a packet has {length} bytes")));
            }
            packet.clear();
            let read = Read::take(&mut *self.from, length).read_to_end(&mut packet)?;
            self.at += read as u64;
            if read as u64 != length {
                return Err(cut());
            }
            if tag != u64::from(trace::packet) << 3 | 2 {
                take.bad("a field of the trace is not a packet", &packet);
            } else if !packet_of(&packet, take, unpacked, is_inner)? {
                return Ok(false);
            }
            self.whole = self.at;
        }
    }

    /// A number of seven bits a byte; none at the end of the stream.
    fn varint(&mut self) -> io::Result<Option<u64>> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let mut byte = [0];
            if self.from.read(&mut byte)? == 0 {
                return if shift == 0 { Ok(None) } else { Err(cut()) };
            }
            self.at += 1;
            number |= u64::from(byte[0] & 0x7f) << shift;
            if byte[0] & 0x80 == 0 {
                return Ok(Some(number));
            }
        }
        Err(invalid("a number has more than ten bytes".to_owned()))
    }
}

/// The packet at the begin of a buffer if it is complete, and its size in bytes with its head.
fn first_packet(buffer: &[u8]) -> Option<(&[u8], usize)> {
    let mut rest = buffer.strip_prefix(&[0x0a])?;
    let length = usize::try_from(varint(&mut rest).ok()?).ok()?;
    let packet = rest.get(..length)?;
    Some((packet, buffer.len() - rest.len() + length))
}

/// Takes a packet, or those that are compressed in it.
fn packet_of(
    packet: &[u8],
    take: &mut impl Take,
    unpacked: &mut Unpacked,
    is_inner: bool,
) -> io::Result<bool> {
    let Some((kind, bytes)) = compressed(packet) else { return Ok(take.packet(packet)) };
    if is_inner {
        take.bad("compressed packets in compressed packets", packet);
        return Ok(true);
    }
    let inner: Box<dyn Read + '_> = match kind {
        ZLIB => Box::new(flate2::read::ZlibDecoder::new(bytes)),
        _ => Box::new(zstd::stream::Decoder::new(bytes)?),
    };
    // Reads one byte more than is allowed, so that a longer packet is noticed.
    let left = unpacked.most.saturating_sub(unpacked.bytes).saturating_add(1);
    let mut inner = BufReader::with_capacity(64 << 10, inner.take(left));
    let mut stream = Stream { from: &mut inner, at: 0, whole: 0 };
    let walked = stream.walk(take, unpacked, true);
    unpacked.bytes = unpacked.bytes.saturating_add(stream.at);
    match walked {
        Ok(_) | Err(_) if unpacked.bytes > unpacked.most => Err(invalid(format!(
            "its compressed packets unpack to more than {} bytes",
            unpacked.most
        ))),
        Ok(more) => Ok(more),
        Err(_) => {
            take.bad("compressed packets that cannot be unpacked", packet);
            Ok(true)
        }
    }
}

fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the last packet is cut off")
}

/// The compressed packets of a packet. It has no other fields, except perhaps those that the service adds.
fn compressed(packet: &[u8]) -> Option<(u32, &[u8])> {
    // Field 50 and 133, of bytes, have tags of two bytes. Other packets begin with a message, or with their time.
    if !packet.starts_with(&[0x92, 0x03]) && !packet.starts_with(&[0xaa, 0x08]) {
        let first = packet.first()?;
        if first & 7 != 0 || *first == 0x40 {
            return None;
        }
    }
    let mut found = None;
    for field in Fields::of(packet) {
        let (number, value) = field.ok()?;
        if matches!(number, ZLIB | ZSTD) {
            found = Some((number, value.bytes().ok()?));
        }
    }
    found
}
