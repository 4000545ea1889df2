//! A part is one object with the contributions of many captures and loss reports. The collectors of an object store exchange parts.
//!
//! It is a sequence of zstd frames; each unpacks to records: a length (u32, little-endian), and postcard of a [`Record`].
//! Parts can be joined by joining their bytes. Only programs whose tables have the same version read one
//! ([`directory`] names the version), because collectors can make parts anew from the captures.

use crate::schema::ANALYSIS;
use crate::sums::Contribution;
use crate::sums::schema::FILE_VERSION;
use serde::Deserialize;
use std::io::{self, ErrorKind, Read};

/// Level of zstd.
const LEVEL: i32 = 3;
/// Bytes of one record, and of all records of a part: what the analysis makes of the largest captures is less.
const MAX_RECORD_BYTES: u32 = 256 << 20;
const MAX_UNPACKED_BYTES: u64 = 8 << 30;

/// A record of a part.
#[derive(Debug, Clone, Deserialize)]
pub struct Record {
    /// True if the capture was analyzed again, because a mapping had come: replaces an earlier record.
    pub is_again: bool,
    /// The capture or loss report.
    pub content: Contribution,
}

/// Returns the directory of the parts that this program reads and writes.
#[must_use]
pub fn directory() -> String {
    format!("sums/v{FILE_VERSION}.{ANALYSIS}")
}

/// Packs contributions into one zstd frame; true: by another analysis of the capture ([`Record::is_again`]).
///
/// # Errors
/// When a record is larger than a part may have.
pub fn pack<'a>(all: impl IntoIterator<Item = (bool, &'a Contribution)>) -> io::Result<Vec<u8>> {
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), LEVEL)?;
    encoder.include_checksum(true)?;
    for (is_again, content) in all {
        let bytes = postcard::to_stdvec(&(is_again, content)).map_err(io::Error::other)?;
        let length = u32::try_from(bytes.len()).ok().filter(|&length| length <= MAX_RECORD_BYTES);
        let length = length.ok_or(ErrorKind::FileTooLarge)?;
        io::Write::write_all(&mut encoder, &length.to_le_bytes())?;
        io::Write::write_all(&mut encoder, &bytes)?;
    }
    encoder.finish()
}

/// Reads the records of a part one after the other.
pub struct Records<R: Read>(io::Take<zstd::stream::Decoder<'static, io::BufReader<R>>>);

impl<R: Read> Records<R> {
    /// Opens a part.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn open(part: R) -> io::Result<Self> {
        Ok(Self(zstd::stream::Decoder::new(part)?.take(MAX_UNPACKED_BYTES)))
    }

    fn read(&mut self) -> io::Result<Option<Record>> {
        let mut length = [0; 4];
        if self.0.read(&mut length[..1])? == 0 {
            return Ok(None);
        }
        self.0.read_exact(&mut length[1..])?;
        let length = u32::from_le_bytes(length);
        if length > MAX_RECORD_BYTES {
            return Err(ErrorKind::FileTooLarge.into());
        }
        let mut bytes = Vec::new();
        if (&mut self.0).take(length.into()).read_to_end(&mut bytes)? as u64 != u64::from(length) {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        postcard::from_bytes(&bytes).map(Some).map_err(io::Error::other)
    }
}

impl<R: Read> Iterator for Records<R> {
    type Item = io::Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sums::tests::pool;

    fn shown(is_again: bool, content: &Contribution) -> String {
        format!("{is_again} {:?}", postcard::to_stdvec(content).unwrap())
    }

    #[test]
    fn joined_parts_have_all_records_and_damage_is_an_error() {
        let pool: Vec<Contribution> = pool().iter().map(Contribution::from).collect();
        let records: Vec<(bool, &Contribution)> =
            (0..).zip(&pool).map(|(n, content)| (n % 7 == 0, content)).collect();
        let (first, second) = records.split_at(records.len() / 2);
        let pack = |some: &[(bool, &Contribution)]| pack(some.iter().copied()).unwrap();
        let bytes = [pack(first), pack(second)].concat();
        let read = |bytes: &[u8]| -> io::Result<Vec<String>> {
            let records = Records::open(bytes)?.collect::<io::Result<Vec<_>>>()?;
            Ok(records
                .iter()
                .map(|Record { is_again, content }| shown(*is_again, content))
                .collect())
        };
        let records: Vec<String> =
            records.iter().map(|(again, content)| shown(*again, content)).collect();
        assert_eq!(read(&bytes).unwrap(), records);
        let end_of_first = pack(first).len();
        let mut rng = fastrand::Rng::with_seed(36);
        for _ in 0..200 {
            let mut flipped = bytes.clone();
            let position = rng.usize(..flipped.len());
            flipped[position] ^= 1 << rng.u8(..8);
            assert!(read(&flipped).is_err() || read(&flipped).unwrap() == records, "{position}");
            assert!(read(&bytes[..position]).is_err() || position == end_of_first, "{position}");
        }
    }
}
