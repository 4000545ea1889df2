//! Adds up sums by key, of all tables, and packs those of a capture.
//!
//! Keys hold numbers for their texts ([`Symbols`]): adding compares and hashes a few words, and allocates nothing for a
//! key that is there. [`Sums::take`] gives the texts back, sorted as SQLite sorts them.

use super::MOST;
use super::row::{Added, Key, RollupRow};
use super::schema::ROLLUPS;
use crate::table::symbols::{Code, Symbol, Symbols};
use crate::table::{Kind, Rollup, Text, Value};
use foldhash::fast::RandomState;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Read;

/// Sums by key, of several tables.
#[derive(Debug, Clone, Default)]
pub struct Sums {
    pub(crate) symbols: Symbols,
    pub(super) tables: BTreeMap<&'static str, HashMap<Key, Added, RandomState>>,
}

/// Sums of a capture as they are stored: texts, and for each table its rows, whose keys have the indices of texts.
#[derive(Serialize, Deserialize)]
struct Packed<Row> {
    texts: Vec<Text>,
    tables: Vec<(Text, Vec<Row>)>,
}

/// Level of zstd.
const LEVEL: i32 = 1;
/// Largest size of unpacked sums: far more than the analysis finds in a capture.
const MAX_UNPACKED_BYTES: u64 = 1 << 30;

/// Values of the key columns and the sums, sorted by key.
pub type SumsByKey = Vec<(Vec<Value>, Vec<i64>)>;

impl Sums {
    /// Adds a row's sums, times `sign`.
    pub(crate) fn add<R: RollupRow>(&mut self, row: &R, sign: i64) {
        let added = row.sums().map(|sum| sum.min(MOST.cast_signed()) * sign);
        self.add_exactly::<R>(row.key(), added);
    }

    /// Adds sums that have no limit: those of many captures or ledgers.
    pub(crate) fn add_exactly<R: RollupRow>(&mut self, key: Key, added: Added) {
        if added.iter().all(|&sum| sum == 0) {
            return;
        }
        let table = self.tables.entry(R::ROLLUP.table.name).or_default();
        let sums = table.entry(key).or_default();
        sums.iter_mut().zip(added).for_each(|(sum, added)| *sum += added);
    }

    /// Adds the sums of a capture, times `sign`.
    pub fn merge(&mut self, capture: &Self, sign: i64) {
        let texts = capture.symbols.texts();
        let symbols: Vec<u64> = texts.map(|text| self.symbols.intern(text).code()).collect();
        for (&name, rows) in &capture.tables {
            let rollup = ROLLUPS.iter().find(|rollup| rollup.table.name == name);
            let kinds: Vec<Kind> = rollup.into_iter().flat_map(Rollup::kinds).collect();
            let table = self.tables.entry(name).or_default();
            for (key, added) in rows {
                let mut key = *key;
                for (code, _) in key.iter_mut().zip(&kinds).filter(|(_, kind)| **kind == Kind::Text)
                {
                    let index = usize::try_from(*code).ok();
                    *code = index.and_then(|index| symbols.get(index)).copied().unwrap_or_default();
                }
                let sums = table.entry(key).or_default();
                sums.iter_mut().zip(added).for_each(|(sum, added)| *sum += added * sign);
            }
        }
    }

    /// Returns the rows of a table, in any order.
    pub(crate) fn rows<R: RollupRow>(&self) -> impl Iterator<Item = R> + '_ {
        let rows = self.tables.get(R::ROLLUP.table.name).into_iter().flatten();
        rows.map(|(key, sums)| R::of_codes(key, sums))
    }

    /// The number of rows.
    #[must_use]
    pub fn count(&self) -> usize {
        self.tables.values().map(HashMap::len).sum()
    }

    /// Packs the sums into bytes that only [`Sums::unpack`] reads: postcard, compressed by zstd.
    #[must_use]
    pub fn pack(&self) -> Vec<u8> {
        let bytes = postcard::to_stdvec(self).unwrap_or_default();
        let compressed = zstd::bulk::Compressor::new(LEVEL).and_then(|mut compressor| {
            compressor.include_checksum(true)?;
            compressor.compress(&bytes)
        });
        // Neither fails in memory; what is empty is refused when it is read.
        compressed.unwrap_or_default()
    }

    /// Unpacks sums; `None` if they are damaged.
    #[must_use]
    pub fn unpack(bytes: &[u8]) -> Option<Self> {
        let mut unpacked = Vec::new();
        let decoder = zstd::stream::Decoder::new(bytes).ok()?;
        decoder.take(MAX_UNPACKED_BYTES).read_to_end(&mut unpacked).ok()?;
        postcard::from_bytes(&unpacked).ok()
    }

    /// Takes the sums of a table.
    #[must_use]
    pub fn take(&mut self, rollup: &Rollup) -> SumsByKey {
        let Some(table) = self.tables.remove(rollup.table.name) else { return Vec::new() };
        self.symbols.rank();
        let kinds: Vec<Kind> = rollup.kinds().collect();
        let order = |key: &Key| {
            let mut order = *key;
            for (code, kind) in order.iter_mut().zip(&kinds) {
                *code = match kind {
                    Kind::Text => self.symbols.rank_of(*code),
                    // Negative ones first.
                    Kind::Int | Kind::Real => *code ^ (1 << 63),
                };
            }
            order
        };
        let mut sorted: Vec<(Key, &Key, &Added)> =
            table.iter().map(|(key, sums)| (order(key), key, sums)).collect();
        sorted.sort_unstable();
        let sum_count = rollup.table.own_columns().count().saturating_sub(rollup.keys);
        let value = |(&code, kind): (&u64, &Kind)| match kind {
            Kind::Text => Value::Text(self.symbols.text_at(code).clone()),
            Kind::Int | Kind::Real => Value::Int(code.cast_signed()),
        };
        sorted
            .into_iter()
            .map(|(_, key, sums)| {
                (
                    key.iter().zip(&kinds).map(value).collect(),
                    sums.iter().copied().take(sum_count).collect(),
                )
            })
            .collect()
    }

    /// Returns the apps whose sums change: the first column of each key.
    pub(crate) fn apps(&self) -> BTreeSet<Text> {
        let keys = self.tables.values().flat_map(HashMap::keys);
        let codes: BTreeSet<u64> = keys.filter_map(|key| key.first().copied()).collect();
        codes.into_iter().map(|code| self.symbols.text_at(code).clone()).collect()
    }
}

impl Serialize for Sums {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let tables = self.tables.iter().map(|(&name, rows)| {
            let mut rows: Vec<(&Key, &Added)> = rows.iter().collect();
            rows.sort_unstable();
            (Text::new_static(name), rows)
        });
        let packed =
            Packed { texts: self.symbols.texts().cloned().collect(), tables: tables.collect() };
        packed.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Sums {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let packed = Packed::<(Key, Added)>::deserialize(deserializer)?;
        let mut sums = Self::default();
        let is_same = |(code, text)| sums.symbols.intern(text) == Symbol::from_code(code);
        if !(0..).zip(&packed.texts).all(is_same) {
            return Err(D::Error::custom("a text has another number"));
        }
        for (name, rows) in packed.tables {
            let rollup = ROLLUPS.iter().find(|rollup| rollup.table.name == name);
            let rollup = rollup.ok_or_else(|| D::Error::custom("no such table"))?;
            sums.tables.insert(rollup.table.name, rows.into_iter().collect());
        }
        Ok(sums)
    }
}
