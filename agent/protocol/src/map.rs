//! A map in a sorted vector: a fraction of the code of std's maps, which each pair of types has anew.

use std::borrow::Borrow;
use std::ops::Index;

/// A map in the order of its keys. A lookup takes logarithmic time, and a key after all others is added in constant
/// time; any other key moves those after it: [`Map::extend`] adds many at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Map<K, V>(Vec<(K, V)>);

impl<K, V> Map<K, V> {
    /// An empty map.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Number of keys.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// True without a key.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keys and values, in the order of the keys.
    pub fn iter(&self) -> Iter<'_, K, V> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// Keys, and values that may be changed, in the order of the keys.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.0.iter_mut().map(|(key, value)| (&*key, value))
    }

    /// Keys in their order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.0.iter().map(|(key, _)| key)
    }

    /// Values, in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }

    /// Takes out the last key.
    pub fn pop_last(&mut self) -> Option<(K, V)> {
        self.0.pop()
    }

    /// Keeps the keys for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        self.0.retain_mut(|(key, value)| keep(key, value));
    }
}

impl<K: Ord, V> Map<K, V> {
    fn find<Q: Ord + ?Sized>(&self, key: &Q) -> Result<usize, usize>
    where
        K: Borrow<Q>,
    {
        // In ascending order, which is how most are filled.
        if self.0.last().is_none_or(|(last, _)| last.borrow() < key) {
            return Err(self.0.len());
        }
        self.0.binary_search_by(|(other, _)| other.borrow().cmp(key))
    }

    /// The value of `key`.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.0.get(self.find(key).ok()?).map(|(_, value)| value)
    }

    /// The value of `key`.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let at = self.find(key).ok()?;
        self.0.get_mut(at).map(|(_, value)| value)
    }

    /// True if `key` has a value.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.find(key).is_ok()
    }

    /// Gives `key` a value, and returns the one that it had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.find(&key) {
            Ok(at) => self.0.get_mut(at).map(|(_, old)| std::mem::replace(old, value)),
            Err(at) => {
                self.0.insert(at, (key, value));
                None
            }
        }
    }

    /// The value of `key`, which gets a default one if it has none.
    pub fn or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        let at = self.find(&key).unwrap_or_else(|at| {
            self.0.insert(at, (key, V::default()));
            at
        });
        &mut self.0[at].1
    }

    /// Takes `key` out, and returns its value.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.find(key).ok().map(|at| self.0.remove(at).1)
    }
}

/// Iterates over a [`Map`].
pub type Iter<'a, K, V> =
    std::iter::Map<std::slice::Iter<'a, (K, V)>, fn(&'a (K, V)) -> (&'a K, &'a V)>;

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a, K, V> IntoIterator for &'a Map<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<K, V> IntoIterator for Map<K, V> {
    type Item = (K, V);
    type IntoIter = std::vec::IntoIter<(K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<K: Ord, V> Extend<(K, V)> for Map<K, V> {
    /// Adds pairs in any order; of those with the same key, the last one counts.
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, pairs: I) {
        self.0.extend(pairs);
        self.0.sort_by(|(a, _), (b, _)| a.cmp(b));
        self.0.dedup_by(|later, earlier| {
            let is_same = later.0 == earlier.0;
            if is_same {
                std::mem::swap(later, earlier);
            }
            is_same
        });
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for Map<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut map = Self::new();
        map.extend(pairs);
        map
    }
}

impl<K: Ord, V, const N: usize> From<[(K, V); N]> for Map<K, V> {
    fn from(pairs: [(K, V); N]) -> Self {
        Self::from_iter(pairs)
    }
}

impl<K: Ord + Borrow<Q>, Q: Ord + ?Sized, V> Index<&Q> for Map<K, V> {
    type Output = V;

    /// # Panics
    /// Without that key.
    fn index(&self, key: &Q) -> &V {
        &self.0[self.find(key).unwrap_or(usize::MAX)].1
    }
}

#[cfg(test)]
mod tests {
    use super::Map;
    use std::collections::BTreeMap;

    #[test]
    fn a_map_is_what_std_s_is() {
        let (mut ours, mut theirs) = (Map::new(), BTreeMap::new());
        let mut random: u32 = 1;
        for number in 0..2_000_u32 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let key = random >> 24;
            match random >> 8 & 7 {
                0 => assert_eq!(ours.remove(&key), theirs.remove(&key)),
                1 => {
                    *ours.or_default(key) += 1;
                    *theirs.entry(key).or_default() += 1;
                }
                2 => {
                    let pairs = [(key, number), (key / 2, number), (key, number + 1)];
                    ours.extend(pairs);
                    theirs.extend(pairs);
                }
                _ => assert_eq!(ours.insert(key, number), theirs.insert(key, number)),
            }
            assert_eq!(ours.get(&key), theirs.get(&key));
            assert_eq!(ours.get_mut(&(key ^ 1)), theirs.get_mut(&(key ^ 1)));
            assert_eq!(ours.contains_key(&7), theirs.contains_key(&7));
        }
        assert_eq!(ours.pop_last(), theirs.pop_last());
        ours.retain(|key, _| key % 3 == 0);
        theirs.retain(|key, _| key % 3 == 0);
        assert!(ours.iter().eq(&theirs) && ours.len() == theirs.len() && !ours.is_empty());
        assert!(ours.keys().eq(theirs.keys()) && ours.values().eq(theirs.values()));
        assert!(ours.into_iter().eq(theirs));
    }
}
