//! A limit on the data that the collector keeps for many apps or users, shared fairly among them.
//!
//! A [`Budget`] has entries by key (an app, a user, an address) and name, each with a weight. If the total is too large, the
//! heaviest key loses its oldest entry. So a key with no more than an equal share of the limit loses nothing, whatever
//! others add. Entries that cannot be revoked, such as a body being received, ask first ([`Budget::admits`]): a key may have
//! as much as is left. One key then has at most half, two have a third each. As each entry weighs something, the limit
//! bounds the number of keys, too.

use std::borrow::Borrow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Entries of many keys within a limit.
#[derive(Debug)]
pub(crate) struct Budget<K, N, T> {
    /// Weight of all entries, and of one key's.
    most: u64,
    most_of_key: u64,
    used: u64,
    /// The next age or turn.
    next: u64,
    by_key: HashMap<K, Of<N, T>>,
    /// The keys by weight; of two the one with the older entry is heavier.
    ranks: BTreeMap<(u64, Reverse<u64>), K>,
    /// The keys in the order in which they take turns.
    turns: BTreeMap<u64, K>,
}

/// Entries of a key.
#[derive(Debug)]
struct Of<N, T> {
    weight: u64,
    turn: u64,
    by_name: HashMap<N, Entry<T>>,
    by_age: BTreeMap<u64, N>,
}

#[derive(Debug)]
struct Entry<T> {
    age: u64,
    weight: u64,
    value: T,
}

impl<N: Hash + Eq, T> Of<N, T> {
    fn rank(&self) -> (u64, Reverse<u64>) {
        (self.weight, Reverse(self.by_age.keys().next().copied().unwrap_or(0)))
    }

    fn remove<Q: Hash + Eq + ?Sized>(&mut self, name: &Q) -> Option<T>
    where
        N: Borrow<Q>,
    {
        let entry = self.by_name.remove(name)?;
        self.by_age.remove(&entry.age);
        self.weight -= entry.weight;
        Some(entry.value)
    }

    fn pop(&mut self) -> Option<(N, T)> {
        let (_, name) = self.by_age.pop_first()?;
        let entry = self.by_name.remove(&name)?;
        self.weight -= entry.weight;
        Some((name, entry.value))
    }
}

impl<K: Hash + Eq + Clone, N: Hash + Eq + Clone, T> Budget<K, N, T> {
    /// Makes a budget for entries of at most `most` in total, and at most `most_of_key` for each key.
    pub(crate) fn new(most: u64, most_of_key: u64) -> Self {
        let (by_key, ranks, turns) = (HashMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { most, most_of_key, used: 0, next: 0, by_key, ranks, turns }
    }

    /// Adds or replaces an entry, as the newest of its key. Returns the evicted entries, which may include this one.
    pub(crate) fn put(&mut self, key: K, name: N, weight: u64, value: T) -> Vec<(K, N, T)> {
        let (age, weight) = (self.next(), weight.max(1));
        self.change(&key, |entries| {
            entries.remove(&name);
            entries.weight += weight;
            entries.by_age.insert(age, name.clone());
            entries.by_name.insert(name, Entry { age, weight, value });
        });
        let mut gone = Vec::new();
        while let Some(heaviest) = self.heaviest(&key) {
            let popped = self.change(&heaviest, Of::pop);
            gone.extend(popped.map(|(name, value)| (heaviest, name, value)));
        }
        gone
    }

    /// The key to evict from now that `key` has more.
    fn heaviest(&self, key: &K) -> Option<K> {
        if self.weight(key) > self.most_of_key {
            return Some(key.clone());
        }
        let heaviest = self.ranks.last_key_value().filter(|_| self.used > self.most);
        heaviest.map(|(_, key)| key.clone())
    }

    /// True if `key` may have this much more without taking from others: its total would be at most the remaining amount.
    pub(crate) fn admits(&self, key: &K, weight: u64) -> bool {
        let wanted = self.weight(key).saturating_add(weight);
        wanted <= self.most_of_key && wanted <= self.most.saturating_sub(self.used)
    }

    /// True if this much more of `key` fits into the limits.
    pub(crate) fn has_room(&self, key: &K, weight: u64) -> bool {
        self.weight(key).saturating_add(weight) <= self.most_of_key
            && self.used.saturating_add(weight) <= self.most
    }

    /// True if the next entry of `key` would replace its own: nothing is left, and no other key has more.
    pub(crate) fn is_full_for(&self, key: &K) -> bool {
        let heaviest = self.ranks.last_key_value().map_or(0, |((weight, _), _)| *weight);
        self.used >= self.most && self.weight(key) >= heaviest
    }

    /// Returns the limit of all entries.
    #[cfg(test)]
    pub(crate) fn most(&self) -> u64 {
        self.most
    }

    /// Returns the weight of a key's entries.
    pub(crate) fn weight(&self, key: &K) -> u64 {
        self.by_key.get(key).map_or(0, |entries| entries.weight)
    }

    /// Returns a value.
    pub(crate) fn get<Q: Hash + Eq + ?Sized>(&self, key: &K, name: &Q) -> Option<&T>
    where
        N: Borrow<Q>,
    {
        self.by_key.get(key)?.by_name.get(name).map(|entry| &entry.value)
    }

    /// Returns the oldest value of a key.
    pub(crate) fn oldest(&self, key: &K) -> Option<&T> {
        let entries = self.by_key.get(key)?;
        entries.by_name.get(entries.by_age.values().next()?).map(|entry| &entry.value)
    }

    /// Returns all entries.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&K, &N, &T)> {
        let of_key = |(key, entries)| {
            let entries: &Of<N, T> = entries;
            entries.by_name.iter().map(move |(name, entry)| (key, name, &entry.value))
        };
        self.by_key.iter().flat_map(of_key)
    }

    /// Takes an entry out.
    pub(crate) fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &K, name: &Q) -> Option<T>
    where
        N: Borrow<Q>,
    {
        self.by_key.contains_key(key).then(|| self.change(key, |entries| entries.remove(name)))?
    }

    /// Takes out the oldest entry of the key whose turn it is, among those that `may` have one.
    pub(crate) fn pop(&mut self, may: impl Fn(&K) -> bool) -> Option<(K, T)> {
        let (turn, key) = self.turns.iter().find(|(_, key)| may(key))?;
        let (turn, key, next) = (*turn, key.clone(), self.next());
        self.turns.remove(&turn);
        self.turns.insert(next, key.clone());
        let popped = self.change(&key, |entries| {
            entries.turn = next;
            entries.pop()
        });
        popped.map(|(_, value)| (key, value))
    }

    /// Drops all entries.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.most, self.most_of_key);
    }

    /// Returns a number that no entry has, as a name.
    pub(crate) fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn change<R>(&mut self, key: &K, change: impl FnOnce(&mut Of<N, T>) -> R) -> R {
        let turn = self.next();
        let entries = self.by_key.entry(key.clone()).or_insert_with(|| {
            self.turns.insert(turn, key.clone());
            Of { weight: 0, turn, by_name: HashMap::new(), by_age: BTreeMap::new() }
        });
        self.ranks.remove(&entries.rank());
        self.used -= entries.weight;
        let changed = change(entries);
        self.used += entries.weight;
        if entries.by_age.is_empty() {
            self.turns.remove(&entries.turn);
            self.by_key.remove(key);
        } else {
            self.ranks.insert(entries.rank(), key.clone());
        }
        changed
    }
}

/// Bytes that bodies take, of memory or disk, by app.
#[derive(Debug)]
pub(crate) struct Bytes(Mutex<Budget<String, u64, ()>>);

/// Bytes of a body, released when this is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    counted: Arc<Bytes>,
    app: String,
    number: u64,
    bytes: u64,
}

impl Bytes {
    /// Makes a limit of this many bytes for all apps.
    pub(crate) fn new(most: u64) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Budget::new(most, u64::MAX))))
    }

    fn locked(&self) -> MutexGuard<'_, Budget<String, u64, ()>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a claim, of no bytes yet.
    pub(crate) fn claim(self: &Arc<Self>, app: &str) -> Claim {
        let number = self.locked().next();
        Claim { counted: Arc::clone(self), app: app.to_owned(), number, bytes: 0 }
    }
}

impl Claim {
    /// Claims more. Returns false if the app has too many.
    pub(crate) fn grow(&mut self, more: u64) -> bool {
        let mut budget = self.counted.locked();
        if !budget.admits(&self.app, more) {
            return false;
        }
        self.bytes += more;
        budget.put(self.app.clone(), self.number, self.bytes, ());
        true
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.counted.locked().remove(&self.app, &self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Entries = Vec<(u8, u8, u64)>;

    /// The same in the plainest way: entries in the order of their age.
    struct Oracle {
        most: u64,
        most_of_key: u64,
        entries: Entries,
        turns: Vec<u8>,
    }

    impl Oracle {
        fn weight(&self, key: u8) -> u64 {
            self.entries.iter().filter(|entry| entry.0 == key).map(|entry| entry.2).sum()
        }

        fn remove_at(&mut self, index: usize) -> (u8, u8) {
            let (key, name, _) = self.entries.remove(index);
            if self.weight(key) == 0 {
                self.turns.retain(|other| *other != key);
            }
            (key, name)
        }

        fn put(&mut self, key: u8, name: u8, weight: u64) -> Vec<(u8, u8)> {
            self.entries.retain(|entry| (entry.0, entry.1) != (key, name));
            self.entries.push((key, name, weight));
            if !self.turns.contains(&key) {
                self.turns.push(key);
            }
            let mut gone = Vec::new();
            loop {
                let victim = if self.weight(key) > self.most_of_key {
                    key
                } else if self.entries.iter().map(|entry| entry.2).sum::<u64>() > self.most {
                    let heaviest =
                        self.entries.iter().map(|entry| self.weight(entry.0)).max().unwrap();
                    self.entries.iter().find(|entry| self.weight(entry.0) == heaviest).unwrap().0
                } else {
                    return gone;
                };
                let index = self.entries.iter().position(|entry| entry.0 == victim).unwrap();
                gone.push(self.remove_at(index));
            }
        }

        fn pop(&mut self, but: u8) -> Option<(u8, u8)> {
            let turn = self.turns.iter().position(|key| *key != but)?;
            let key = self.turns.remove(turn);
            self.turns.push(key);
            let index = self.entries.iter().position(|entry| entry.0 == key).unwrap();
            Some(self.remove_at(index))
        }
    }

    proptest! {
        #[test]
        fn a_budget_does_what_the_plain_one_does_and_takes_nothing_from_who_has_a_share(
            most in 1..60_u64,
            most_of_key in 1..80_u64,
            steps in prop::collection::vec((0..8_u8, 0..6_u8, 0..12_u8, 1..9_u64), 0..200),
        ) {
            let mut budget = Budget::new(most, most_of_key);
            let mut oracle = Oracle { most, most_of_key, entries: Vec::new(), turns: Vec::new() };
            for (step, key, name, weight) in steps {
                match step {
                    0 => {
                        let popped = budget.pop(|other| *other != key);
                        prop_assert_eq!(popped, oracle.pop(key));
                    }
                    1 => {
                        let index = oracle.entries.iter().position(|entry| (entry.0, entry.1) == (key, name));
                        let removed = index.map(|index| oracle.remove_at(index).1);
                        prop_assert_eq!(budget.remove(&key, &name), removed);
                    }
                    _ => {
                        let gone = budget.put(key, name, weight, name);
                        let gone: Vec<_> = gone.into_iter().map(|(key, name, _)| (key, name)).collect();
                        prop_assert_eq!(&gone, &oracle.put(key, name, weight));
                        let mut keys: Vec<u8> = oracle.entries.iter().map(|entry| entry.0).chain([key]).collect();
                        keys.sort_unstable();
                        keys.dedup();
                        for (other, _) in gone.into_iter().filter(|(other, _)| *other != key) {
                            let had = oracle.weight(other) + 8;
                            prop_assert!(had > most / (keys.len() as u64 + 1));
                        }
                    }
                }
                prop_assert_eq!(budget.used, oracle.entries.iter().map(|entry| entry.2).sum::<u64>());
                prop_assert!(budget.used <= most);
                let mut entries: Vec<_> =
                    budget.entries().map(|(key, name, _)| (*key, *name)).collect();
                entries.sort_unstable();
                let mut expected: Vec<_> = oracle.entries.iter().map(|entry| (entry.0, entry.1)).collect();
                expected.sort_unstable();
                prop_assert_eq!(entries, expected);
                let oldest = oracle.entries.iter().find(|entry| entry.0 == key).map(|entry| entry.1);
                prop_assert_eq!(budget.oldest(&key).copied(), oldest);
                prop_assert_eq!(budget.get(&key, &name).is_some(), oracle.entries.iter().any(|entry| (entry.0, entry.1) == (key, name)));
                prop_assert_eq!(budget.weight(&key), oracle.weight(key));
                let wanted = oracle.weight(key) + weight;
                let is_admitted = wanted <= most_of_key && wanted + budget.used <= most;
                prop_assert_eq!(budget.admits(&key, weight), is_admitted);
            }
        }
    }

    #[test]
    fn one_key_at_a_hundred_times_its_share_takes_nothing_from_the_others() {
        let mut budget = Budget::new(100, u64::MAX);
        for key in 1..10 {
            (0..10).for_each(|name| drop(budget.put(key, name, 1, ())));
        }
        (0..1000).for_each(|name| drop(budget.put(0, name, 1, ())));
        assert!((1..10).all(|key| budget.weight(&key) == 10));
        assert!(budget.is_full_for(&0) && !budget.is_full_for(&99));

        // The first one leaves room for the next, however many take all that they may.
        let mut budget = Budget::new(100, u64::MAX);
        let had = [0, 1, 2].map(|key| {
            (0..100)
                .filter(|name| {
                    let may = budget.admits(&key, 1);
                    if may {
                        budget.put(key, *name, 1, ());
                    }
                    may
                })
                .count()
        });
        assert_eq!(had, [50, 25, 13]);
    }
}
