//! The records of the fixture `recorder`: numbers with a check, thread by thread.

use crate::trace;
use std::collections::BTreeMap;
use std::path::Path;

/// The numbers that each thread of a trace wrote, in order. Panics at a record that the fixture
/// cannot have written.
#[must_use]
pub fn by_thread(path: &Path) -> BTreeMap<u32, Vec<u64>> {
    let mut threads: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for line in trace::records(path) {
        let (kind, rest) = line.payload.split_at(2);
        assert_eq!(kind, "I|", "{line:?}");
        let (pid, name) = rest.split_once('|').unwrap();
        assert_eq!(pid, line.tgid.to_string());
        threads.entry(line.tid).or_default().push(number(name));
    }
    threads
}

/// A name's number; panics when the rest of the name does not fit it.
fn number(name: &str) -> u64 {
    const FILLER: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let number: u64 = name.split(' ').next().unwrap().parse().unwrap();
    let filler = &FILLER[..usize::try_from(number % 41).unwrap()];
    assert_eq!(name, format!("{number} {} {filler}", number * number % 9973), "torn");
    number
}

/// True if numbers follow each other without a gap.
#[must_use]
pub fn is_contiguous(numbers: &[u64]) -> bool {
    numbers.windows(2).all(|pair| pair[1] == pair[0] + 1)
}
