//! Selects captures to delete when the spool is full: lowest priority first, then oldest.

use std::time::Duration;

/// Limits of the spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Bytes of all captures.
    pub bytes: u64,
    /// Number of captures.
    pub captures: usize,
    /// Bytes of one capture; a larger one is truncated.
    pub capture_bytes: u64,
    /// Maximum age of a capture.
    pub age: Duration,
}

impl Default for Quota {
    fn default() -> Self {
        Self {
            bytes: 50_000_000,
            captures: 100,
            capture_bytes: 20_000_000,
            age: Duration::from_secs(7 * 24 * 3600),
        }
    }
}

/// The properties of a capture that quotas consider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) priority: u32,
    pub(crate) age_ms: u64,
    pub(crate) bytes: u64,
}

/// The decision of a quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Room {
    /// The new capture fits after these are deleted: index in the list, and reason.
    After(Vec<(usize, &'static str)>),
    /// The new capture does not fit. Holds the reason.
    None(&'static str),
}

/// Decides what to delete so that the `held` captures, those being sent (`others`: number, bytes) and the
/// `new` one are within the quota.
pub(crate) fn room(
    held: &[Held],
    others: (usize, u64),
    new: Option<(u32, u64)>,
    quota: &Quota,
) -> Room {
    let new_bytes = new.map_or(0, |(_, bytes)| bytes);
    let mut captures = held.len() + others.0 + usize::from(new.is_some());
    let mut bytes = held
        .iter()
        .fold(others.1.saturating_add(new_bytes), |sum, one| sum.saturating_add(one.bytes));
    let mut order: Vec<usize> = (0..held.len()).collect();
    let rank = |index: usize| {
        held.get(index).map(|one| (one.priority, std::cmp::Reverse(one.age_ms), index))
    };
    order.sort_unstable_by_key(|&index| rank(index));
    let mut gone = Vec::new();
    let mut victims = order.into_iter();
    while captures > quota.captures || bytes > quota.bytes {
        let reason = if bytes > quota.bytes { "quota_bytes" } else { "quota_count" };
        let victim = victims.next().and_then(|index| Some((index, held.get(index)?)));
        // The new capture is the newest: only captures of a higher priority outlive it.
        match (victim, new) {
            (Some((_, victim)), Some((priority, _))) if victim.priority > priority => {
                return Room::None(reason);
            }
            (Some((index, victim)), _) => {
                gone.push((index, reason));
                captures -= 1;
                bytes = bytes.saturating_sub(victim.bytes);
            }
            (None, Some(_)) => return Room::None(reason),
            (None, None) => break,
        }
    }
    Room::After(gone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn quota(bytes: u64, captures: usize) -> Quota {
        Quota { bytes, captures, ..Quota::default() }
    }

    /// The naive rule: delete the lowest capture, the new one included, until the rest fits; if the new
    /// one is deleted, keep all others.
    fn naive(
        held: &[Held],
        others: (usize, u64),
        new: Option<(u32, u64)>,
        quota: &Quota,
    ) -> Option<Vec<usize>> {
        let mut all: Vec<(Option<usize>, u32, u64, u64)> = held
            .iter()
            .enumerate()
            .map(|(index, one)| (Some(index), one.priority, one.age_ms, one.bytes))
            .collect();
        if let Some((priority, bytes)) = new {
            all.push((None, priority, 0, bytes));
        }
        let mut gone = Vec::new();
        while all.len() + others.0 > quota.captures
            || all.iter().map(|one| one.3).sum::<u64>() + others.1 > quota.bytes
        {
            let least = (0..all.len()).min_by(|&a, &b| {
                let (a, b) = (all[a], all[b]);
                // Held ones are older than the new one, even where the clock has not moved.
                let age = |one: (Option<usize>, u32, u64, u64)| (one.0.is_some(), one.2);
                a.1.cmp(&b.1).then(age(b).cmp(&age(a)))
            });
            let Some(least) = least else { break };
            match all.remove(least).0 {
                Some(index) => gone.push(index),
                None => return None,
            }
        }
        Some(gone)
    }

    fn holdings() -> impl Strategy<Value = Vec<Held>> {
        let one = (0..4u32, 0..10u64, 0..100u64);
        let held = one.prop_map(|(priority, age_ms, bytes)| Held { priority, age_ms, bytes });
        proptest::collection::vec(held, 0..20)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn a_quota_is_never_exceeded_and_the_right_one_goes(
            held in holdings(),
            others in (0..3usize, 0..100u64),
            new in proptest::option::of((0..4u32, 0..300u64)),
            bytes in 0..1500u64,
            captures in 0..22usize,
        ) {
            let quota = quota(bytes, captures);
            let expected = naive(&held, others, new, &quota);
            match room(&held, others, new, &quota) {
                Room::None(_) => prop_assert_eq!(expected, None),
                Room::After(gone) => {
                    let gone: Vec<usize> = gone.into_iter().map(|(index, _)| index).collect();
                    prop_assert_eq!(expected, Some(gone.clone()));
                    let left = held.iter().enumerate().filter(|(index, _)| !gone.contains(index));
                    let (count, sum) = left.fold((0, 0), |(count, sum), (_, one)| (count + 1, sum + one.bytes));
                    let new = new.map_or((0, 0), |(_, bytes)| (1, bytes));
                    let fits = count + others.0 + new.0 <= captures && sum + others.1 + new.1 <= bytes;
                    // A capture that is being sent stays, whatever its size.
                    prop_assert!(fits || (count == 0 && new.0 == 0));
                }
            }
        }
    }

    #[test]
    fn low_priorities_and_old_ones_make_room_and_a_new_low_one_does_not_push_out_high_ones() {
        let one = |priority, age_ms| Held { priority, age_ms, bytes: 100 };
        let held = [one(1, 5), one(0, 1), one(0, 9), one(5, 99)];
        let gone = |new, bytes| match room(&held, (0, 0), Some(new), &quota(bytes, 100)) {
            Room::After(gone) => gone.into_iter().map(|(index, _)| index).collect(),
            Room::None(_) => vec![99],
        };
        assert_eq!(gone((1, 100), 500), [0usize; 0]);
        assert_eq!(gone((1, 100), 499), [2]);
        assert_eq!(gone((1, 100), 300), [2, 1]);
        assert_eq!(gone((1, 100), 200), [2, 1, 0]);
        assert_eq!(gone((1, 100), 199), [99], "the new one, and nobody else");
        assert_eq!(gone((9, 600), 500), [99]);
        let by_count = room(&held, (0, 0), Some((9, 1)), &quota(1000, 4));
        assert_eq!(by_count, Room::After(vec![(2, "quota_count")]));
    }
}
