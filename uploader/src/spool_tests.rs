//! The spool's claims, with a clock that the test sets.

use crate::error::Error;
use crate::quota::Quota;
use crate::spool::{Recording, Spool, Waiting};
use crate::timestamp::Now;
use proptest::prelude::*;
use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

pub(crate) const fn at(seconds: u64) -> Now {
    Now { boot: 1, boot_ms: seconds * 1000, real_ms: 1_700_000_000_000 + seconds * 1000 }
}

/// A frame of text that does not compress, about this many bytes.
pub(crate) fn frame(seed: u64, bytes: u64) -> Vec<u8> {
    let hash = |line: u64| (seed * 1_000_003 + line).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let text: String = (0..bytes / 9).map(|line| format!("{:016x}\n", hash(line))).collect();
    zstd::bulk::compress(format!("# tracer: nop\n{text}").as_bytes(), 3).unwrap()
}

pub(crate) fn spool() -> (TempDir, Spool) {
    let directory = TempDir::new().unwrap();
    let spool = Spool::open(&directory.path().join("spool")).unwrap();
    (directory, spool)
}

fn record(spool: &mut Spool, label: &str, priority: u32, bytes: &[u8], now: Now) -> Recording {
    let recording = spool.begin(label, priority, now).unwrap();
    fs::write(recording.path(), bytes).unwrap();
    recording
}

pub(crate) fn put(spool: &mut Spool, label: &str, now: Now) -> Waiting {
    let recording = record(spool, label, 0, &frame(now.boot_ms, 2000), now);
    spool.seal(recording, &Quota::default(), now).unwrap()
}

fn labels(spool: &Spool, now: Now) -> Vec<String> {
    spool.waiting(now).iter().map(|one| one.label().to_owned()).collect()
}

fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn lost(spool: &Spool) -> Vec<(String, u64)> {
    spool.losses().count().into_iter().collect()
}

#[test]
fn captures_wait_by_priority_and_age_whatever_process_made_them() {
    let (_directory, mut spool) = spool();
    for (label, priority, seconds) in
        [("old", 0, 1), ("new", 0, 9), ("high", 5, 5), ("../x y", 0, 3)]
    {
        let recording = record(&mut spool, label, priority, &frame(seconds, 500), at(seconds));
        spool.seal(recording, &Quota::default(), at(seconds)).unwrap();
    }
    let other = Spool::open(spool.root()).unwrap();
    assert_eq!(labels(&other, at(10)), ["high", "old", ".._x_y", "new"]);
    assert!(Spool::is_intact(&other.waiting(at(10))[0]));
    assert_eq!(names(&spool.root().join("rec")), [""; 0]);
}

#[test]
fn a_capture_that_a_killed_process_was_writing_is_kept_up_to_its_last_whole_frame() {
    let (_directory, mut killed) = spool();
    let root = killed.root().to_owned();
    let quota = Quota::default();
    let [first, second] = [frame(1, 3000), frame(2, 3000)];
    // Half written, whole, and not even a frame.
    let half = killed.begin("half", 3, at(1)).unwrap();
    let part = half.path().with_added_extension("77.part");
    fs::write(part, [&first[..], &second[..second.len() / 2]].concat()).unwrap();
    let _whole = record(&mut killed, "whole", 0, &first, at(2));
    let nothing = killed.begin("nothing", 0, at(3)).unwrap();
    fs::write(nothing.path().with_added_extension("77.part"), &first[..100]).unwrap();
    fs::write(root.join("rec/garbage"), "x").unwrap();

    let mut next = Spool::open(&root).unwrap();
    let recovery = next.lock_recovery().unwrap();
    let taken = next.recover(&recovery, &quota, at(9));
    assert!(taken.is_empty(), "it lives: {taken:?}");
    assert_eq!(lost(&next), [("damaged".to_owned(), 1)], "the garbage");
    // As the kernel does it: its lock goes, its file stays.
    let owner = names(&root.join("owners")).remove(0);
    drop(killed);
    File::create(root.join("owners").join(owner)).unwrap();
    let own = record(&mut next, "own", 0, &first, at(4));

    let other = Spool::open(&root).unwrap();
    assert!(other.lock_recovery().is_none(), "one at a time");
    let taken = next.recover(&recovery, &quota, at(9));
    assert_eq!(taken.len(), 3);
    assert_eq!(labels(&next, at(9)), ["half", "whole"]);
    let half = &next.waiting(at(9))[0];
    assert!(half.name.recovered && half.name.priority == 3);
    assert_eq!(fs::read(&half.path).unwrap(), first);
    assert_eq!(lost(&next), [("damaged".to_owned(), 1), ("killed".to_owned(), 1)]);
    assert!(own.path().exists());
    assert_eq!(names(&root.join("owners")).len(), 1, "its own");
}

#[test]
fn a_capture_that_is_too_large_is_cut_and_one_that_cannot_be_is_lost() {
    let (_directory, mut spool) = spool();
    let [first, second] = [frame(1, 3000), frame(2, 3000)];
    let both = [&first[..], &second[..]].concat();
    let quota = Quota { capture_bytes: first.len() as u64 + 300, ..Quota::default() };
    let recording = record(&mut spool, "w", 0, &both, at(1));
    let sealed = spool.seal(recording, &quota, at(1)).unwrap();
    assert_eq!(sealed.name.cut_from, Some(both.len() as u64));
    assert!(sealed.bytes <= quota.capture_bytes && Spool::is_intact(&sealed));
    let recording = record(&mut spool, "w", 0, &both, at(1));
    let small = Quota { capture_bytes: 400, ..quota };
    let error = spool.seal(recording, &small, at(1)).unwrap_err();
    assert!(matches!(error, Error::NotKept { reason: "size" }), "{error}");
    assert_eq!(lost(&spool), [("size".to_owned(), 1)]);
}

#[test]
fn old_ones_go_and_the_clock_that_is_set_makes_none_old() {
    let (_directory, mut spool) = spool();
    let quota = Quota { age: Duration::from_secs(100), ..Quota::default() };
    put(&mut spool, "a", at(0));
    put(&mut spool, "b", at(50));
    let set = |seconds: u64, real_ms: u64| Now { real_ms, ..at(seconds) };
    spool.trim(&quota, set(100, 9_000_000_000_000)).unwrap();
    spool.trim(&quota, set(100, 0)).unwrap();
    assert_eq!(labels(&spool, at(100)), ["a", "b"]);
    spool.trim(&quota, set(101, 0)).unwrap();
    assert_eq!(labels(&spool, at(100)), ["b"]);
    assert_eq!(lost(&spool), [("age".to_owned(), 1)]);
}

#[test]
fn withdrawn_consent_empties_it_and_nothing_comes_in_until_it_is_given() {
    let (_directory, mut spool) = spool();
    put(&mut spool, "a", at(0));
    spool.note_loss("b", "disk", at(1));
    let open = record(&mut spool, "c", 0, &frame(1, 500), at(2));
    spool.withdraw().unwrap();
    assert!(spool.is_off() && Spool::open(spool.root()).unwrap().is_off());
    assert!(spool.waiting(at(3)).is_empty() && lost(&spool).is_empty() && !open.path().exists());
    let late = record(&mut spool, "d", 0, &frame(1, 500), at(3));
    let path = late.path().to_owned();
    assert!(spool.seal(late, &Quota::default(), at(3)).is_err());
    assert!(!path.exists() && lost(&spool).is_empty(), "nor is it counted");
    spool.consent().unwrap();
    spool.consent().unwrap();
    put(&mut spool, "e", at(4));
    assert_eq!(labels(&spool, at(4)), ["e"]);
}

#[test]
fn a_thousand_files_that_are_no_captures_are_cleared_away_and_counted() {
    let (_directory, mut spool) = spool();
    put(&mut spool, "good", at(0));
    let ready = spool.root().join("ready");
    for number in 0..996 {
        fs::write(ready.join(format!("{number}.ftrace.zst")), [7; 100]).unwrap();
    }
    fs::create_dir(ready.join("directory")).unwrap();
    fs::write(ready.join("directory/x"), "").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", ready.join("link")).unwrap();
    let name = names(&ready).into_iter().find(|name| name.contains("good")).unwrap();
    for damage in ["x", "~"] {
        fs::write(ready.join(damage.to_owned() + &name), "").unwrap();
    }
    spool.trim(&Quota::default(), at(1)).unwrap();
    assert_eq!(names(&ready), [name]);
    let damaged = lost(&spool).remove(0);
    assert_eq!(damaged.0, "damaged");
    assert_eq!(damaged.1, 998, "directory and link have no content of ours");
    assert!(fs::metadata("/etc/passwd").unwrap().len() > 0);
    let bytes: u64 = names(&spool.root().join("lost"))
        .iter()
        .map(|name| fs::metadata(spool.root().join("lost").join(name)).unwrap().len())
        .sum();
    assert_eq!(bytes, 0);
}

#[test]
fn a_spool_that_is_deleted_under_its_feet_is_made_anew() {
    let (_directory, mut spool) = spool();
    put(&mut spool, "a", at(0));
    let open = record(&mut spool, "b", 0, &frame(1, 500), at(1));
    fs::remove_dir_all(spool.root()).unwrap();
    let error = spool.seal(open, &Quota::default(), at(1)).unwrap_err().to_string();
    assert!(error.starts_with("cannot open ") && error.contains("No such file"), "{error}");
    spool.trim(&Quota::default(), at(2)).unwrap();
    put(&mut spool, "c", at(3));
    assert_eq!(labels(&spool, at(3)), ["c"]);
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let error = Spool::open(Path::new("/proc/tracetee")).unwrap_err().to_string();
    assert!(error.starts_with("cannot create /proc/tracetee/rec: "), "{error}");
}

#[test]
fn losses_are_told_in_one_report_until_it_is_there() {
    let (_directory, spool) = spool();
    assert_eq!(spool.losses().report(at(0)), None);
    spool.note_loss("a", "disk", at(1));
    spool.note_loss("b", "age", at(2));
    let first = spool.losses().report(at(3)).unwrap();
    assert_eq!(
        serde_json::json!(std::collections::BTreeMap::from_iter(&first.content.by_reason)),
        serde_json::json!({"age": 1, "disk": 1})
    );
    assert_eq!(first.content.lost[0].label, "a");
    // A later loss is for the next one; this one stays as it is, over a restart too.
    spool.note_loss("c", "disk", at(4));
    let again = Spool::open(spool.root()).unwrap();
    assert_eq!(again.losses().report(at(5)), Some(first.clone()));
    again.losses().reported(&first.losses);
    let second = again.losses().report(at(6)).unwrap();
    assert_eq!(
        serde_json::json!(std::collections::BTreeMap::from_iter(&second.content.by_reason)),
        serde_json::json!({"disk": 1})
    );
    assert_ne!(second.id, first.id);
    again.losses().reported(&second.losses);
    assert_eq!((again.losses().report(at(7)), lost(&again)), (None, vec![]));
}

#[test]
fn losses_that_nobody_hears_of_are_counted_in_the_end() {
    let (_directory, spool) = spool();
    for seconds in 0..5_010 {
        spool.note_loss("w", "age", at(seconds));
    }
    spool.losses().bound();
    spool.losses().bound();
    assert_eq!(lost(&spool), [("age".to_owned(), 5_000), ("older".to_owned(), 10)]);
    spool.note_loss("w", "age", at(6_000));
    spool.losses().bound();
    let report = spool.losses().report(at(6_000)).unwrap();
    assert_eq!(
        serde_json::json!(std::collections::BTreeMap::from_iter(&report.content.by_reason)),
        serde_json::json!({"age": 5_000, "older": 11})
    );
    // The oldest were those that are only counted.
    let first = report.losses[0].id.get_timestamp().unwrap().to_unix();
    assert_eq!(first.0, at(11).real_ms / 1000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn any_captures_stay_within_the_quota_and_none_disappears(
        steps in proptest::collection::vec((0..4u32, 1..40u64, 0..400u64), 1..30),
        bytes in 500..20_000u64,
        captures in 1..8usize,
    ) {
        let (_directory, mut spool) = spool();
        let quota = Quota { bytes, captures, capture_bytes: 6_000, age: Duration::from_secs(1000) };
        let (mut seconds, mut made) = (0, 0);
        for (priority, size, later) in steps {
            seconds += later;
            made += 1;
            let recording = record(&mut spool, "w", priority, &frame(seconds, size * 200), at(seconds));
            let most = spool.waiting(at(seconds)).iter().map(|one| one.name.priority).max();
            match spool.seal(recording, &quota, at(seconds)) {
                Ok(sealed) => prop_assert!(Spool::is_intact(&sealed)),
                Err(Error::NotKept { reason: "size" }) => {}
                // It was refused for those that are worth more, or for its own size.
                Err(Error::NotKept { .. }) => prop_assert!(
                    size * 200 > bytes / 4 || most.is_some_and(|most| most > priority)
                ),
                Err(error) => prop_assert!(false, "{error}"),
            }
            let waiting = spool.waiting(at(seconds));
            prop_assert!(waiting.len() <= captures);
            prop_assert!(waiting.iter().map(|one| one.bytes).sum::<u64>() <= bytes);
            spool.trim(&quota, at(seconds)).unwrap();
        }
        let lost: u64 = lost(&spool).into_iter().map(|(_, count)| count).sum();
        prop_assert_eq!(spool.waiting(at(seconds)).len() as u64 + lost, made);
    }
}

fn part(frames: u64) -> Vec<u8> {
    let mut part = tracetee_ledger::Part { day: 1, ..Default::default() };
    part.sums.observed_s = frames;
    part.encode().unwrap()
}

#[test]
fn a_copy_that_is_torn_at_any_byte_leaves_the_one_before() {
    let (_directory, spool) = spool();
    let (mut file, none) = spool.open_ledger(|_| true, at(1)).unwrap();
    assert_eq!(none, None);
    let path = spool.root().join("ledger").join(&names(&spool.root().join("ledger"))[0]);
    for frames in 1..=3 {
        file.write(&part(frames)).unwrap();
    }
    let before = fs::read(&path).unwrap();
    file.write(&part(400_000)).unwrap();
    let after = fs::read(&path).unwrap();
    drop(file);
    assert_eq!(before.len().max(after.len()), after.len());
    let changed = (0..after.len()).filter(|&at| before.get(at) != Some(&after[at]));
    let (first, last) = (changed.clone().min().unwrap(), changed.max().unwrap());
    for cut in first..=last + 1 {
        let mut torn = after.clone();
        torn[cut..].fill(0);
        torn[cut.min(before.len())..before.len()].copy_from_slice(&before[cut.min(before.len())..]);
        fs::write(&path, torn).unwrap();
        let (file, found) = spool.open_ledger(|_| true, at(2)).unwrap();
        let expected = if cut > last { 400_000 } else { 3 };
        assert_eq!(found.unwrap().sums.observed_s, expected, "{cut} of {first} to {last}");
        drop(file);
    }
}

#[test]
fn processes_have_a_part_each_and_ended_ones_are_closed() {
    let (_directory, spool) = spool();
    let (mut first, _) = spool.open_ledger(|_| true, at(1)).unwrap();
    let (mut second, none) = spool.open_ledger(|_| true, at(2)).unwrap();
    assert_eq!((none, names(&spool.root().join("ledger")).len()), (None, 2));
    first.write(&part(1)).unwrap();
    second.write(&part(2)).unwrap();
    drop(first);
    // The first one has ended: of another day, so it is closed; a third one that counts on takes nobody's.
    let (third, none) = spool.open_ledger(|part| part.day == 2, at(3)).unwrap();
    assert_eq!(
        (none, spool.parts().len(), names(&spool.root().join("ledger")).len()),
        (None, 1, 2)
    );
    assert_eq!(Spool::read_part(&spool.parts()[0].1), Some(part(1)));
    drop(second);
    let (_second, found) = spool.open_ledger(|_| true, at(4)).unwrap();
    assert_eq!(found.unwrap().sums.observed_s, 2);
    drop(third);
}

#[test]
fn the_oldest_closed_parts_are_lost_and_counted_beyond_the_limit() {
    let (_directory, spool) = spool();
    for day in 0..40 {
        let (mut file, _) = spool.open_ledger(|_| false, at(day * 86_400)).unwrap();
        file.write(&part(day)).unwrap();
        file.close().unwrap();
    }
    fs::write(spool.root().join("parts/mine"), "").unwrap();
    let _file = spool.open_ledger(|_| false, at(40 * 86_400)).unwrap();
    let days: Vec<_> = spool.parts().iter().map(|one| Spool::read_part(&one.1).unwrap()).collect();
    assert_eq!(days, (8..40).map(part).collect::<Vec<_>>());
    assert_eq!(lost(&spool), [("damaged".to_owned(), 1), ("quota".to_owned(), 8)]);
}

#[test]
fn a_withdrawn_consent_deletes_counts_and_ends_a_file_that_is_open() {
    let (_directory, spool) = spool();
    let (mut file, _) = spool.open_ledger(|_| true, at(1)).unwrap();
    file.write(&part(1)).unwrap();
    spool.withdraw().unwrap();
    let error = file.write(&part(2)).unwrap_err();
    assert!(
        matches!(error, crate::Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
    );
    assert!(spool.open_ledger(|_| true, at(2)).is_err());
    assert_eq!((names(&spool.root().join("ledger")).len(), spool.parts().len()), (0, 0));
    spool.consent().unwrap();
    assert!(spool.open_ledger(|_| true, at(3)).unwrap().1.is_none());
}
