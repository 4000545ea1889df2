use super::*;
use crate::store::captures::days::today;
use crate::store::captures::local_store::key_of;
use crate::store::captures::retention::{AGE, Retention, SIZE};
use crate::store::test_store::{TEXT, meta};
use serde_json::json;
use tracetee_fleet::part::{Record, Records, directory};

/// A collector's replica of a bucket in memory.
struct Collector {
    replica: Replica,
    local: LocalStore,
    indexer: Indexer,
}

impl Collector {
    fn new(cloud: &Arc<dyn Shared>) -> Self {
        Self::with_replica(Replica::with_objects(cloud.clone(), "memory:///", None, true).unwrap())
    }

    fn with_replica(replica: Replica) -> Self {
        let local = LocalStore::open(&replica.root).unwrap();
        replica.discard_unusable(Checks::All).unwrap();
        let indexer = Indexer::start(&replica.root, &tables_of(&replica.root)).unwrap();
        Self { replica, local, indexer }
    }

    /// Brings it to the state of the bucket; analyzes what no part has.
    fn sync(&self) -> Listing {
        let later = SystemTime::now() + Duration::from_secs(60);
        let listing = self.replica.sync(&self.local, &self.indexer, later, &|| false).unwrap();
        self.indexer.settle();
        listing
    }

    fn captures(&self) -> Vec<String> {
        let database = Database::open(&tables_of(&self.replica.root)).unwrap();
        database.by_age().unwrap().into_iter().map(|(key, ..)| key).collect()
    }
}

/// Puts captures into the bucket, as collectors that were killed at once have done.
fn put(cloud: &Arc<dyn Shared>, app: &str, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let id = uuid::Builder::from_unix_timestamp_millis(number, &[7; 10]).into_uuid();
        let meta = meta(&json!({"app": app, "install_id": format!("device {number}")}));
        let body = zstd::bulk::compress(TEXT.as_bytes(), 1).unwrap();
        assert!(cloud.put_capture(&key_of(id, &meta, today()).path(), body, &meta).unwrap());
    }
}

fn parts(cloud: &Arc<dyn Shared>) -> Vec<String> {
    cloud.list(&directory()).unwrap()
}

#[test]
fn a_collector_takes_what_another_one_has_published_and_analyzes_the_rest() {
    let cloud = location::open_shared("memory:///").unwrap();
    put(&cloud, "a", 0..10);
    let (first, second) = (Collector::new(&cloud), Collector::new(&cloud));
    first.sync();
    assert_eq!(first.captures().len(), 10);
    assert!(parts(&cloud).is_empty());
    first.replica.publish().unwrap();
    assert_eq!(parts(&cloud).len(), 1);
    let mut left = 0;
    crate::store::objects::disk::walk(&first.replica.root.join("raw"), &mut |_| left += 1).unwrap();
    assert_eq!(left, 0, "what is published is in the bucket alone");
    second.replica.take_parts(&|| false).unwrap();
    assert_eq!(second.captures(), first.captures());
    assert_eq!(second.indexer.state.analysed.load(std::sync::atomic::Ordering::Relaxed), 0);
    // A capture that was deleted is gone everywhere, and one that has come is there.
    put(&cloud, "a", 10..11);
    cloud.delete(&first.captures()[..1]).unwrap();
    second.sync();
    first.sync();
    assert_eq!(second.captures(), first.captures());
    assert_eq!(first.captures().len(), 10);
}

#[test]
fn a_collector_that_is_ended_leaves_the_rest_of_a_part_and_takes_it_the_next_time() {
    let cloud = location::open_shared("memory:///").unwrap();
    put(&cloud, "a", 0..10);
    let (first, second) = (Collector::new(&cloud), Collector::new(&cloud));
    first.sync();
    first.replica.publish().unwrap();
    let looks = std::cell::Cell::new(0);
    let is_over = || looks.replace(looks.get() + 1) == 1;
    second.replica.take_parts(&is_over).unwrap();
    assert_eq!(second.captures().len(), BATCH, "of ten");
    second.replica.take_parts(&|| false).unwrap();
    assert_eq!(second.captures(), first.captures());
}

#[test]
fn a_capture_that_was_analyzed_again_is_in_a_joined_part_once() {
    let cloud = location::open_shared("memory:///").unwrap();
    put(&cloud, "a", 0..2);
    let first = Collector::new(&cloud);
    first.sync();
    first.replica.publish().unwrap();
    let part = cloud.find(&parts(&cloud)[0]).unwrap().unwrap().0;
    let mut records: Vec<Record> = Records::open(&*part).unwrap().map(Result::unwrap).collect();
    let again = &mut records[0].content;
    again.capture.as_mut().unwrap().device = "another name".into();
    let packed = tracetee_fleet::part::pack([(true, &*again)]).unwrap();
    cloud.put(&format!("{}/9999999999999-1-0", directory()), packed).unwrap();
    first.replica.take_parts(&|| false).unwrap();
    first.replica.join(&parts(&cloud), &|_| true).unwrap();
    let [joined] = &*parts(&cloud) else { panic!("{:?}", parts(&cloud)) };
    let bytes = cloud.find(joined).unwrap().unwrap().0;
    let kept: Vec<Record> = Records::open(&*bytes).unwrap().map(Result::unwrap).collect();
    let named = |record: &Record| record.content.devices().any(|device| device == "another name");
    assert_eq!((kept.len(), kept.iter().filter(|record| named(record)).count()), (2, 1));
}

#[test]
fn retention_of_a_bucket_deletes_by_age_and_by_size_on_all_collectors() {
    let cloud = location::open_shared("memory:///").unwrap();
    put(&cloud, "a", 0..6);
    put(&cloud, "b", 6..8);
    let (first, second) = (Collector::new(&cloud), Collector::new(&cloud));
    let listing = first.sync();
    first.replica.publish().unwrap();
    second.sync();
    let bytes = listing.raw[0].bytes;
    let retention = Retention { bytes: Some(bytes * 5), ..Retention::default() };
    let deleted = listing.retain(&first.replica, retention, SystemTime::now()).unwrap();
    assert_eq!((deleted.count(AGE), deleted.count(SIZE)), (0, 3), "of the app that has most");
    let listing = second.sync();
    assert_eq!((first.captures(), second.captures().len()), (second.captures(), 5));
    let retention = Retention { days: Some(3), ..Retention::default() };
    let later = SystemTime::now() + Duration::from_secs(5 * 86_400);
    let deleted = listing.retain(&second.replica, retention, later).unwrap();
    assert_eq!((deleted.count(AGE), deleted.count(SIZE)), (5, 0));
    first.sync();
    assert!(first.captures().is_empty());
}

#[test]
fn small_parts_are_joined_without_what_was_deleted() {
    let cloud = location::open_shared("memory:///").unwrap();
    let collector = Collector::new(&cloud);
    for number in 0..5 {
        put(&cloud, "a", number * 10..number * 10 + 10);
        collector.sync();
        collector.replica.publish().unwrap();
    }
    let all = collector.captures();
    assert_eq!(parts(&cloud).len(), 5);
    cloud.delete(&all[..3]).unwrap();
    let mut listing = collector.sync();
    collector.replica.compact(&listing, &|| false).unwrap();
    assert_eq!(parts(&cloud).len(), 5, "clocks may differ: what is young stays");
    listing.raw[0].modified += Duration::from_secs(600);
    collector.replica.compact(&listing, &|| false).unwrap();
    // One of three of ten is rewritten, the others are joined.
    let keys: Vec<String> =
        parts(&cloud).iter().flat_map(|part| collector.replica.keys(part)).collect();
    let keys: BTreeSet<String> = keys.into_iter().collect();
    assert_eq!(parts(&cloud).len(), 2);
    assert_eq!(keys, all[3..].iter().cloned().collect());
    let another = Collector::new(&cloud);
    another.replica.take_parts(&|| false).unwrap();
    assert_eq!(another.captures(), collector.captures());
}

#[test]
fn parts_of_less_than_500_records_are_joined_to_some_of_2000_if_they_are_a_minute_old() {
    let cloud = location::open_shared("memory:///").unwrap();
    let collector = Collector::new(&cloud);
    for number in 0..10 {
        put(&cloud, "a", number..number + 1);
        collector.sync();
        collector.replica.publish().unwrap();
    }
    let mut listing = collector.sync();
    let now = SystemTime::now() + Duration::from_secs(3600);
    listing.raw[0].modified = now;
    let now_ms = now.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
    // Each has a capture; their names say that they have more, and are of another time.
    for (number, part) in parts(&cloud).iter().enumerate() {
        let (count, age_ms) = match number {
            0..7 => (499, 61_000),
            7 => (500, 61_000),
            _ => (499, 59_000),
        };
        let name = format!("{}/{}-{count}-{number}", directory(), now_ms - age_ms);
        cloud.put(&name, cloud.find(part).unwrap().unwrap().0).unwrap();
        cloud.delete(std::slice::from_ref(part)).unwrap();
        fs::rename(collector.replica.mark(part), collector.replica.mark(&name)).unwrap();
    }
    collector.replica.compact(&listing, &|| false).unwrap();
    let records = |part: &String| collector.replica.keys(part).len();
    let mut joined: Vec<usize> = parts(&cloud).iter().map(records).collect();
    joined.sort_unstable();
    assert_eq!(joined, [1, 1, 1, 2, 5]);
}

#[test]
fn commands_that_open_a_new_cache_at_once_find_it_theirs() {
    let cloud = location::open_shared("memory:///").unwrap();
    for _ in 0..300 {
        let directory = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let root = Some(directory.path());
                    Replica::with_objects(cloud.clone(), "s3://a/b", root, false).unwrap();
                });
            }
        });
    }
}

#[test]
fn a_directory_is_the_cache_of_one_store_and_damaged_tables_are_made_anew() {
    let cloud = location::open_shared("memory:///").unwrap();
    put(&cloud, "a", 0..3);
    let directory = tempfile::tempdir().unwrap();
    let open =
        |address: &str| Replica::with_objects(cloud.clone(), address, Some(directory.path()), true);
    let read = |replica: Replica| {
        let collector = Collector::with_replica(replica);
        collector.sync();
        let captures = collector.captures().len();
        collector.indexer.finish();
        captures
    };
    assert_eq!(read(open("s3://a/b").unwrap()), 3);
    let error = open("s3://a/c").unwrap_err().to_string();
    assert!(error.contains("is the cache of s3://a/b"), "{error}");
    let tables = tables_of(directory.path());
    let mut bytes = fs::read(&tables).unwrap();
    let position = bytes.windows(8).position(|text| text == b"NOT NULL").unwrap();
    bytes[position..position + 8].copy_from_slice(b"        ");
    fs::write(&tables, bytes).unwrap();
    let waiting = Outbox::path(directory.path()).join("7");
    fs::write(&waiting, "rows that another version has made").unwrap();
    assert_eq!(read(open("s3://a/b").unwrap()), 3);
    assert!(!waiting.exists());
}

#[test]
fn what_came_late_of_a_forgotten_device_is_deleted_when_no_command_would_count_it() {
    let cloud = location::open_shared("memory:///").unwrap();
    let collector = Collector::new(&cloud);
    put(&cloud, "a", 0..2);
    let stored = || cloud.list("raw/v1").unwrap().len();
    let intent = intents::of_device("device 1");
    for (text, left) in [(intents::forget_text("device 1"), 2), (intents::until_text(), 1)] {
        cloud.put(&intent, text.into_bytes()).unwrap();
        collector.replica.mirror_intents().unwrap();
        collector.sync();
        assert_eq!(stored(), left);
        assert_eq!(collector.captures().len(), 1);
    }
}
