//! The account: each capture that was made is in the server's store once, or in a loss report with
//! a reason; nothing in between.

use crate::chaos::Store;
use std::collections::{BTreeMap, BTreeSet};

/// Result of the account.
#[derive(Debug, Default)]
pub struct Account {
    /// Captures in the store.
    pub arrived: u64,
    /// Captures lost, by reason.
    pub lost: BTreeMap<String, u64>,
    /// Given up after they had been sent without an answer, and there: the collector leaves them out
    /// of the lost, as it knows better.
    pub unconfirmed: u64,
}

impl Account {
    /// Checks that all of it adds up: `made` are the ids, with the digests of their files as far as
    /// they are known.
    #[must_use]
    pub fn of(made: &BTreeMap<String, Option<[u8; 32]>>, store: &Store) -> Self {
        assert!(store.changed.is_empty(), "came twice and changed: {:?}", store.changed);
        assert!(store.false_digests.is_empty(), "digests: {:?}", store.false_digests);
        let mut account = Self::default();
        let mut lost: BTreeMap<&str, (&str, bool)> = BTreeMap::new();
        for report in store.reports.values() {
            let each = report["lost"].as_array().unwrap();
            let sum: u64 =
                report["by_reason"].as_object().unwrap().values().filter_map(|n| n.as_u64()).sum();
            assert_eq!(sum, each.len() as u64, "{report}");
            for one in each {
                let (id, reason) = (one["id"].as_str().unwrap(), one["reason"].as_str().unwrap());
                let entry = (reason, one["unconfirmed"].as_bool().unwrap());
                let twice = lost.insert(id, entry);
                assert!(twice.is_none(), "{id} is reported twice: {twice:?} {entry:?}");
            }
        }
        let mut missing = BTreeSet::new();
        for (id, digest) in made {
            match (store.captures.get(id), lost.get(&**id)) {
                (Some((arrived, _)), told) => {
                    assert!(digest.is_none_or(|digest| digest == *arrived), "{id}: other bytes");
                    account.arrived += 1;
                    if let Some((reason, unconfirmed)) = told {
                        assert!(unconfirmed, "{id} arrived and is told to be lost: {reason}");
                        account.unconfirmed += 1;
                    }
                }
                (None, Some((reason, _))) => {
                    *account.lost.entry((*reason).to_owned()).or_default() += 1;
                }
                (None, None) => {
                    missing.insert(id);
                }
            }
        }
        assert!(missing.is_empty(), "{} are nowhere: {missing:?}", missing.len());
        account
    }
}
