//! Rows of captures and loss reports as one object, in which the collectors of an object store pass them on.
//!
//! A part is a sequence of zstd frames; each unpacks to records: a length (u32, little-endian), and postcard of a [`Record`].
//! Parts can be joined by joining their bytes. Only programs whose tables have the same version read one
//! ([`directory`] names the version), because collectors can make parts anew from the captures.

use crate::rows::Rows;
use crate::schema::ANALYSIS;
use crate::sums::schema::FILE_VERSION;
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind, Read};

/// Level of zstd.
const LEVEL: i32 = 3;
/// Bytes of one record, and of all records of a part: what the analysis makes of the largest captures is less.
const MAX_RECORD_BYTES: u32 = 256 << 20;
const MAX_UNPACKED_BYTES: u64 = 8 << 30;

/// A record of a part.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Record {
    /// True if the capture was analyzed again, because a mapping had come: replaces earlier rows.
    pub is_again: bool,
    /// The rows.
    pub rows: Rows,
}

impl Record {
    /// Returns the key of the capture or loss report, below the store's root; `None` if there are no rows.
    #[must_use]
    pub fn key(&self) -> Option<String> {
        match (&self.rows.capture, self.rows.losses.first()) {
            (Some(capture), _) => Some(capture.raw_key.to_string()),
            (None, Some(loss)) => Some(format!("losses/v1/dt={}/{}.json", loss.dt, loss.report_id)),
            (None, None) => None,
        }
    }

    /// True if the rows are of a device, by the capture's text or by the metadata that came with it.
    #[must_use]
    pub fn is_from(&self, is_device: &dyn Fn(&str) -> bool) -> bool {
        let Rows { capture, losses, other_device, .. } = &self.rows;
        let devices = capture.iter().map(|capture| &capture.device).chain(other_device);
        devices.chain(losses.iter().map(|loss| &loss.device)).any(|device| is_device(device))
    }
}

/// Returns the directory of the parts that this program reads and writes.
#[must_use]
pub fn directory() -> String {
    format!("sums/v{FILE_VERSION}.{ANALYSIS}")
}

/// A [`Record`] that is written.
#[derive(Serialize)]
struct Written<'a> {
    is_again: bool,
    rows: &'a Rows,
}

/// Packs rows into one zstd frame; true: they were made by another analysis of the capture ([`Record::is_again`]).
///
/// # Errors
/// When a record is larger than a part may have.
pub fn pack<'a>(all: impl IntoIterator<Item = (bool, &'a Rows)>) -> io::Result<Vec<u8>> {
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), LEVEL)?;
    encoder.include_checksum(true)?;
    for (is_again, rows) in all {
        let bytes = postcard::to_stdvec(&Written { is_again, rows }).map_err(io::Error::other)?;
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

    #[test]
    fn joined_parts_have_all_records_and_damage_is_an_error() {
        let record = |(n, rows)| Record { is_again: n % 7 == 0, rows };
        let records: Vec<Record> = (0..).zip(pool()).map(record).collect();
        let (first, second) = records.split_at(records.len() / 2);
        let pack =
            |some: &[Record]| pack(some.iter().map(|record| (record.is_again, &record.rows)));
        let bytes = [pack(first).unwrap(), pack(second).unwrap()].concat();
        let read = |bytes: &[u8]| Records::open(bytes).unwrap().collect::<io::Result<Vec<_>>>();
        assert_eq!(read(&bytes).unwrap(), records);
        let end_of_first = pack(first).unwrap().len();
        let mut rng = fastrand::Rng::with_seed(36);
        for _ in 0..200 {
            let mut flipped = bytes.clone();
            let place = rng.usize(..flipped.len());
            flipped[place] ^= 1 << rng.u8(..8);
            assert!(read(&flipped).is_err() || read(&flipped).unwrap() == records, "{place}");
            assert!(read(&bytes[..place]).is_err() || place == end_of_first, "{place}");
        }
    }
}
