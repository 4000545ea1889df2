//! Adds up sums by key, of all tables.
//!
//! Keys hold numbers for their texts ([`Symbols`]): adding compares and hashes a few words, and allocates nothing for a
//! key that is there. [`Sums::take`] gives the texts back, sorted as SQLite sorts them.

use crate::table::symbols::{Added, Key, Symbols};
use crate::table::{Kind, Rollup, RollupRow, Text, Value};
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Sums by key, of several tables.
#[derive(Debug, Default)]
pub struct Sums {
    pub(super) symbols: Symbols,
    tables: BTreeMap<&'static str, HashMap<Key, Added, RandomState>>,
}

/// Values of the key columns and the sums, sorted by key.
pub type SumsByKey = Vec<(Vec<Value>, Vec<i64>)>;

impl Sums {
    /// Adds a row's sums, times `sign`.
    pub(crate) fn add<R: RollupRow>(&mut self, row: &R, sign: i64) {
        let added = row.sums().map(|sum| sum * sign);
        if added.iter().all(|&sum| sum == 0) {
            return;
        }
        let table = self.tables.entry(R::ROLLUP.table.name).or_default();
        let sums = table.entry(row.key()).or_default();
        sums.iter_mut().zip(added).for_each(|(sum, added)| *sum += added);
    }

    /// Takes the sums of a table.
    #[must_use]
    pub fn take(&mut self, rollup: &Rollup) -> SumsByKey {
        let Some(table) = self.tables.remove(rollup.table.name) else { return Vec::new() };
        let ranks = self.symbols.ranks();
        let kinds: Vec<Kind> =
            rollup.table.own_columns().take(rollup.keys).map(|column| column.kind).collect();
        let order = |key: &Key| {
            let mut order = *key;
            for (code, kind) in order.iter_mut().zip(&kinds) {
                *code = match kind {
                    Kind::Text => usize::try_from(*code)
                        .ok()
                        .and_then(|place| ranks.get(place).copied())
                        .unwrap_or(u64::MAX),
                    // Negative ones first.
                    Kind::Int | Kind::Real => *code ^ (1 << 63),
                };
            }
            order
        };
        let mut sorted: Vec<(Key, Key, Added)> =
            table.into_iter().map(|(key, sums)| (order(&key), key, sums)).collect();
        sorted.sort_unstable_by_key(|&(order, ..)| order);
        let sum_count = rollup.table.own_columns().count().saturating_sub(rollup.keys);
        let value = |(&code, kind): (&u64, &Kind)| match kind {
            Kind::Text => Value::Text(self.symbols.text_of_code(code)),
            Kind::Int | Kind::Real => Value::Int(code.cast_signed()),
        };
        sorted
            .into_iter()
            .map(|(_, key, sums)| {
                (
                    key.iter().zip(&kinds).map(value).collect(),
                    sums.into_iter().take(sum_count).collect(),
                )
            })
            .collect()
    }

    /// Returns the apps whose sums change: the first column of each key.
    pub(crate) fn apps(&self) -> BTreeSet<Text> {
        let keys = self.tables.values().flat_map(HashMap::keys);
        let codes: BTreeSet<u64> = keys.filter_map(|key| key.first().copied()).collect();
        codes.into_iter().map(|code| self.symbols.text_of_code(code)).collect()
    }
}
