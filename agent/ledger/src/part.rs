//! A part: the sums of one process of an app on one day with one version.

use crate::codec::{Reader, Writer, checksum};
use crate::{
    Counts, Histogram, MAX_ATTRIBUTES, MAX_BYTES, MAX_NAME_BYTES, MAX_ROWS, MAX_SCREEN_BYTES,
    OTHER, Pipeline, Row, RowKey, bounded,
};

/// Version of the encoding: the first byte of a part.
const VERSION: u8 = 1;
/// Bytes of the checksum at the end.
const CHECKSUM_BYTES: usize = 8;
/// Rows of screens with their own name; the rest is for [`OTHER`].
const NAMED_ROWS: usize = MAX_ROWS - 16;
/// Rows with their own refresh rate and pipeline; the rest share one row per source.
const KEYED_ROWS: usize = MAX_ROWS - crate::Source::ALL.len();

/// A type of start, depending on how much of the app was in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartType {
    /// The process was started.
    Cold,
    /// The process existed, its activity did not.
    Warm,
    /// The activity was there.
    Hot,
}

impl StartType {
    /// All types, in the order of [`Sums::starts`].
    pub const ALL: [Self; 3] = [Self::Cold, Self::Warm, Self::Hot];

    /// Name of the type.
    #[must_use]
    pub const fn name(self) -> &'static str {
        ["cold", "warm", "hot"][self as usize]
    }

    /// Time to initial display from which Google Play calls a start slow, ms.
    #[must_use]
    pub const fn slow_ms(self) -> u64 {
        [5_000, 2_000, 1_500][self as usize]
    }
}

/// Counts of starts of one type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Start {
    /// Starts.
    pub count: u64,
    /// Starts that Google Play calls slow.
    pub slow: u64,
    /// Time to initial display, ms.
    pub ttid_ms: Histogram,
    /// Time to full display, ms, of the starts that reported it.
    pub ttfd_ms: Histogram,
}

/// The counts of a part, or of many.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sums {
    /// Time for which the app was visible to its user, s: the base of rates. Without activities, the lifetime of the
    /// process.
    pub observed_s: u64,
    /// Time in which the process did not run (frozen, stopped, suspended), visible or not, s.
    pub stood_still_s: u64,
    /// Sessions: times of being visible.
    pub sessions: u64,
    /// Sessions with more than 25 % late frames, as Google Play counts them.
    pub slow_sessions: u64,
    /// Starts by type, in the order of [`StartType::ALL`].
    pub starts: [Start; 3],
    /// Ends of earlier processes, by reason.
    pub exits: Counts,
    /// The part of [`Self::exits`] that a user saw.
    pub visible_exits: Counts,
    /// Major page faults of the process.
    pub major_faults: u64,
    /// Largest observed proportional set size, KiB; merging takes the maximum.
    pub peak_pss_kb: u64,
    /// Processor time of the agent, µs.
    pub own_cost_us: u64,
    /// Counts of frames, sorted by key.
    rows: Vec<(RowKey, Row)>,
}

impl Sums {
    /// Adds `other`. Associative and commutative.
    pub fn merge(&mut self, other: &Self) {
        for (sum, one) in self.numbers_mut().into_iter().zip(other.numbers()) {
            *sum = sum.saturating_add(one);
        }
        self.peak_pss_kb = self.peak_pss_kb.max(other.peak_pss_kb);
        for (sum, one) in self.starts.iter_mut().zip(&other.starts) {
            sum.count = sum.count.saturating_add(one.count);
            sum.slow = sum.slow.saturating_add(one.slow);
            sum.ttid_ms.merge(&one.ttid_ms);
            sum.ttfd_ms.merge(&one.ttfd_ms);
        }
        self.exits.merge(&other.exits);
        self.visible_exits.merge(&other.visible_exits);
        for (key, row) in &other.rows {
            match self.find(key) {
                Ok(at) => self.rows[at].1.merge(row),
                Err(at) => self.rows.insert(at, (key.clone(), row.clone())),
            }
        }
    }

    /// Adds `added` within the limits of a part. `screen` returns the name that a screen may have.
    pub fn absorb(&mut self, mut added: Self, mut screen: impl FnMut(String) -> String) {
        for (mut key, row) in std::mem::take(&mut added.rows) {
            key.screen = screen(key.screen);
            self.row(key).merge(&row);
        }
        let Self { exits, visible_exits, .. } = &mut added;
        let exits = [(&mut self.exits, exits), (&mut self.visible_exits, visible_exits)];
        for (sum, one) in exits {
            std::mem::take(one).iter().for_each(|(name, count)| sum.record(name, count));
        }
        self.merge(&added);
    }

    /// Counts of frames, by key.
    #[must_use]
    pub fn rows(&self) -> &[(RowKey, Row)] {
        &self.rows
    }

    /// The row of `key`. A part has [`MAX_ROWS`] rows: screens beyond the limit share rows of the name [`OTHER`].
    pub fn row(&mut self, mut key: RowKey) -> &mut Row {
        key.screen.truncate(bounded(&key.screen, MAX_SCREEN_BYTES).len());
        if self.rows.len() >= NAMED_ROWS && self.find(&key).is_err() {
            OTHER.clone_into(&mut key.screen);
            if self.rows.len() >= KEYED_ROWS && self.find(&key).is_err() {
                (key.refresh_mhz, key.pipeline) = (0, Pipeline::Views);
            }
        }
        let at = self.find(&key).unwrap_or_else(|at| {
            self.rows.insert(at, (key, Row::default()));
            at
        });
        &mut self.rows[at].1
    }

    /// Adds a start. Times are in ms.
    pub fn start(&mut self, kind: StartType, ttid_ms: Option<u64>, ttfd_ms: Option<u64>) {
        let start = &mut self.starts[kind as usize];
        start.count = start.count.saturating_add(1);
        if let Some(ms) = ttid_ms {
            start.ttid_ms.record(ms);
            start.slow = start.slow.saturating_add(u64::from(ms >= kind.slow_ms()));
        }
        ttfd_ms.into_iter().for_each(|ms| start.ttfd_ms.record(ms));
    }

    fn find(&self, key: &RowKey) -> Result<usize, usize> {
        self.rows.binary_search_by(|row| row.0.cmp(key))
    }

    /// The numbers that merging adds.
    const fn numbers(&self) -> [u64; 6] {
        let [observed, still] = [self.observed_s, self.stood_still_s];
        [observed, still, self.sessions, self.slow_sessions, self.major_faults, self.own_cost_us]
    }

    const fn numbers_mut(&mut self) -> [&mut u64; 6] {
        let (faults, cost) = (&mut self.major_faults, &mut self.own_cost_us);
        let (sessions, slow) = (&mut self.sessions, &mut self.slow_sessions);
        [&mut self.observed_s, &mut self.stood_still_s, sessions, slow, faults, cost]
    }

    fn write(&self, out: &mut Writer) {
        self.numbers().into_iter().chain([self.peak_pss_kb]).for_each(|number| out.number(number));
        for start in &self.starts {
            out.number(start.count);
            out.number(start.slow);
            start.ttid_ms.write(out);
            start.ttfd_ms.write(out);
        }
        self.exits.write(out);
        self.visible_exits.write(out);
        out.number(self.rows.len() as u64);
        self.rows.iter().for_each(|(key, row)| row.write(key, out));
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        let mut sums = Self::default();
        for number in sums.numbers_mut() {
            *number = from.number()?;
        }
        sums.peak_pss_kb = from.number()?;
        for start in &mut sums.starts {
            (start.count, start.slow) = (from.number()?, from.number()?);
            (start.ttid_ms, start.ttfd_ms) = (Histogram::read(from)?, Histogram::read(from)?);
            let most = start.slow.max(start.ttid_ms.count()).max(start.ttfd_ms.count());
            Some(()).filter(|()| most <= start.count)?;
        }
        (sums.exits, sums.visible_exits) = (Counts::read(from)?, Counts::read(from)?);
        for _ in 0..from.length(MAX_ROWS)? {
            let row = Row::read(from)?;
            let is_next = sums.rows.last().is_none_or(|last| last.0 < row.0);
            sums.rows.push(Some(row).filter(|_| is_next)?);
        }
        (sums.slow_sessions <= sums.sessions).then_some(sums)
    }
}

/// The sums of one process of an app on one day with one version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Part {
    /// Days since 1970-01-01, UTC.
    pub day: u32,
    /// Version code of the app.
    pub version_code: u64,
    /// Number of the part: a day of one version has several if the app has several processes, or one restarts.
    pub part: u32,
    /// Attributes that the app gives itself, sorted by name: at most [`MAX_ATTRIBUTES`].
    pub segment: Vec<(String, String)>,
    /// The counts.
    pub sums: Sums,
}

impl Part {
    /// Encodes the part; `None` if it exceeds a limit.
    #[must_use]
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut out = Writer { bytes: vec![VERSION] };
        [self.day.into(), self.version_code, self.part.into()]
            .into_iter()
            .for_each(|number| out.number(number));
        out.number(self.segment.len() as u64);
        for (name, value) in &self.segment {
            out.text(name);
            out.text(value);
        }
        self.sums.write(&mut out);
        let sum = checksum(&out.bytes);
        out.bytes.extend_from_slice(&sum.to_le_bytes());
        // A reader has the limits.
        Self::decode(&out.bytes).map(|_| out.bytes)
    }

    /// Decodes the bytes of [`Self::encode`]; `None` for others.
    ///
    /// Takes time and memory in proportion to the bytes, of which there may be [`MAX_BYTES`].
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (body, sum) = Some(bytes)
            .filter(|bytes| bytes.len() <= MAX_BYTES)?
            .split_last_chunk::<CHECKSUM_BYTES>()?;
        let (&VERSION, content) = body.split_first()? else { return None };
        Some(()).filter(|()| checksum(body) == u64::from_le_bytes(*sum))?;
        let mut from = Reader::new(content);
        let (day, version_code, part) = (from.number32()?, from.number()?, from.number32()?);
        let mut segment: Vec<(String, String)> = Vec::new();
        for _ in 0..from.length(MAX_ATTRIBUTES)? {
            let attribute = (from.text(MAX_NAME_BYTES)?, from.text(MAX_NAME_BYTES)?);
            let is_next = segment.last().is_none_or(|last| last.0 < attribute.0);
            segment.push(Some(attribute).filter(|_| is_next)?);
        }
        let sums = Sums::read(&mut from)?;
        from.is_empty().then_some(Self { day, version_code, part, segment, sums })
    }
}
