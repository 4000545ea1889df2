//! A part of a ledger as rows: the day of a device, its screens, and its histograms.
//!
//! `tables.sqlite` has a row of the day and these rows packed beside it, to subtract them; Parquet files have all rows
//! ([`crate::parquet`]). [`Sums::add_ledger`] makes the sums that reports read.

use crate::error::Error;
use crate::object_keys::{ReportKey, app_of_report};
use crate::rows::{self, Ledger};
use crate::schema::{ANR, LedgerDayRow, Text, ledger_day_row, screen_row};
use crate::sums::row::RollupRow;
use crate::sums::schema::{LedgerHistogram, ledger_frames, ledger_rollup};
use crate::sums::{Days, MOST, Sums, whole};
use crate::table::symbols::Symbol;
use foldhash::fast::RandomState;
use std::collections::HashMap;
use tracetee_ledger::{Histogram, Part, StartType};
use tracetee_protocol::CaptureMeta;
use twox_hash::XxHash64;

/// Digits of an id: 128 bits of a hash.
const ID_DIGITS: usize = 32;

/// Kind of the buckets of the time that late frames took past their deadlines.
const OVERRUN: Text = Text::new_static("overrun");
/// Kinds of the rows that count ends of processes: all, and those that a user saw.
const EXIT: &str = "exit";
const VISIBLE_EXIT: &str = "visible_exit";
pub(crate) const NS_OF_US: u64 = 1_000;
pub(crate) const NS_OF_MS: u64 = 1_000_000;

/// Returns the id of a device's part, which is one for a device, a day, a version and a number.
#[must_use]
pub fn id_of(device: &str, part: &Part) -> String {
    let Part { day, version_code, part, .. } = part;
    let key = format!("{device}\0{day}\0{version_code}\0{part}");
    let mut id = hex::encode(hmac_sha256::Hash::hash(key.as_bytes()));
    id.truncate(ID_DIGITS);
    id
}

/// Returns a part in its stored form: its metadata, a line of JSON, and then the part.
#[must_use]
pub fn stored(meta: &CaptureMeta, part: &[u8]) -> Vec<u8> {
    [meta.to_json().as_bytes(), b"\n", part].concat()
}

/// Splits a stored part into its line of JSON and the part; `None` if it is none.
#[must_use]
pub fn split(stored: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = stored.iter().position(|&byte| byte == b'\n')?;
    Some((stored.get(..end)?, stored.get(end + 1..)?))
}

impl Ledger {
    /// Reads a stored part.
    ///
    /// # Errors
    /// [`Error::Report`] if it is none.
    pub fn read(key: &ReportKey, bytes: &[u8]) -> Result<Self, Error> {
        let read = || {
            let (json, part) = split(bytes)?;
            Some((CaptureMeta::from_json(json)?, Part::decode(part)?))
        };
        let (mut meta, part) = read().ok_or(Error::Report("a part of a ledger"))?;
        // The part decides, not its metadata.
        meta.version_code = Some(part.version_code).filter(|&code| code > 0);
        let app = app_of_report(&key.name);
        let (day, sums) =
            (ledger_day_row(&key.name, app.as_deref(), &key.day, &meta, &part), &part.sums);
        let screens = sums.rows().iter().map(|(key, row)| screen_row(key, row)).collect();
        let mut histograms = Vec::new();
        for (key, row) in sums.rows() {
            let (screen, name) = (Text::from(&key.screen), key.source.name());
            push(
                &mut histograms,
                [OVERRUN, screen, Text::new_static(name)],
                &row.overrun_us,
                NS_OF_US,
            );
        }
        for (kind, start) in StartType::ALL.into_iter().zip(&sums.starts) {
            for (kind, times) in [(kind.name(), &start.ttid_ms), ("fully_drawn", &start.ttfd_ms)] {
                let names = [kind, "", ""].map(Text::new_static);
                push(&mut histograms, names, times, NS_OF_MS);
            }
        }
        for (kind, counts) in [(EXIT, &sums.exits), (VISIBLE_EXIT, &sums.visible_exits)] {
            histograms.extend(counts.iter().map(|(name, count)| rows::Histogram {
                kind: Text::new_static(kind),
                name: Text::from(name),
                buckets: vec![(0, count.min(MOST))],
                ..rows::Histogram::default()
            }));
        }
        Ok(Self { day, screens, histograms })
    }

    /// The number of rows that take as much memory. A bucket is an eighth of one.
    #[must_use]
    pub fn count(&self) -> usize {
        let buckets: usize = self.histograms.iter().map(|one| one.buckets.len()).sum();
        1 + self.screens.len() + self.histograms.len() + buckets.div_ceil(8)
    }

    /// Packs screens and histograms into bytes that only [`Self::unpack`] reads: postcard, and its hash.
    pub(crate) fn pack(&self) -> Vec<u8> {
        let mut bytes = postcard::to_stdvec(&(&self.screens, &self.histograms)).unwrap_or_default();
        bytes.extend(XxHash64::oneshot(0, &bytes).to_le_bytes());
        bytes
    }

    /// Unpacks a part; `None` if it is damaged.
    pub(crate) fn unpack(day: LedgerDayRow, packed: &[u8]) -> Option<Self> {
        let (bytes, hash) = packed.split_last_chunk()?;
        if XxHash64::oneshot(0, bytes) != u64::from_le_bytes(*hash) {
            return None;
        }
        let (screens, histograms) = postcard::from_bytes(bytes).ok()?;
        Some(Self { day, screens, histograms })
    }
}

impl rows::Histogram {
    /// The sum of the buckets.
    pub(crate) fn amount(&self) -> u64 {
        self.buckets.iter().map(|(_, amount)| amount).sum()
    }

    /// True if it counts deaths that a version may be worse by: those that a user saw, and by the system's limit of memory.
    pub(crate) fn is_death(&self) -> bool {
        match &*self.kind {
            VISIBLE_EXIT => [ANR, "crash", "crash_native"].contains(&&*self.name),
            EXIT => &*self.name == "memory_limiter",
            _ => false,
        }
    }

    /// True if it counts exits.
    pub(crate) fn is_exit(&self) -> bool {
        [EXIT, VISIBLE_EXIT].contains(&&*self.kind)
    }
}

fn push(
    histograms: &mut Vec<rows::Histogram>,
    [kind, screen, name]: [Text; 3],
    times: &Histogram,
    unit_ns: u64,
) {
    let middle_ns = |low: u64, high| low.midpoint(high).saturating_mul(unit_ns).min(MOST);
    let buckets = times.buckets().map(|(low, high, count)| (middle_ns(low, high), count.min(MOST)));
    histograms.push(rows::Histogram { kind, screen, name, buckets: buckets.collect() });
}

/// Key of a histogram: app, day, version, kind, screen, name.
type Names = [Symbol; 6];

/// Histograms of many parts. One that has another part's names adds to the same few words.
#[derive(Debug, Default)]
pub(crate) struct Histograms(HashMap<Names, HashMap<u64, i64, RandomState>, RandomState>);

impl Histograms {
    /// Adds its counts to the sums.
    pub(crate) fn flush(self, sums: &mut Sums) {
        for ([app, dt, ver, kind, screen, name], buckets) in self.0 {
            for (bucket_ns, amount) in buckets {
                let row = LedgerHistogram { app, dt, ver, kind, screen, name, bucket_ns, amount };
                sums.add_exactly::<LedgerHistogram<_>>(row.key(), row.sums());
            }
        }
    }
}

impl Sums {
    /// Adds a part of a ledger, or subtracts it if `sign` is -1.
    pub(crate) fn add_ledger(
        &mut self,
        histograms: &mut Histograms,
        ledger: &Ledger,
        days: Days,
        sign: i64,
    ) {
        let row = &ledger.day;
        let names @ [app, dt, ver] =
            [&row.app, &row.dt, &row.ver].map(|text| self.symbols.intern(text));
        self.add(&ledger_rollup(names, row, days), sign);
        for row in &ledger.screens {
            let of_screen = ledger_frames(&mut self.symbols, names, row);
            self.add(&of_screen, sign);
        }
        for rows::Histogram { kind, screen, name, buckets } in &ledger.histograms {
            let [kind, screen, name] = [kind, screen, name].map(|text| self.symbols.intern(text));
            let sums = histograms.0.entry([app, dt, ver, kind, screen, name]).or_default();
            for &(bucket_ns, amount) in buckets {
                *sums.entry(bucket_ns).or_default() += whole(amount) * sign;
            }
        }
    }
}
