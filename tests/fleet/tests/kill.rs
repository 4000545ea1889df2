//! The collector is killed two hundred times, wherever it is, while a fleet sends. What it has
//! acknowledged is there, once, and its tables are those that its captures make.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracetee_fleet::object_keys::RawKey;
use tracetee_simulate::Plan;
use tracetee_tests::tracetee;
use tracetee_tests_fleet::{contents, meta_of};
use tracetee_tests_upload::Numbers;
use tracetee_tests_upload::collector::{Collector, put_capture, run};

const KILLS: u64 = 200;
const SENDERS: u64 = 4;

#[test]
fn an_acknowledged_capture_is_stored_once_whenever_the_collector_is_killed() {
    let plan = Plan { frames: 12, ..Plan::default() };
    let url = Arc::new(Mutex::new(String::new()));
    let acknowledged = Arc::new(Mutex::new(BTreeSet::new()));
    let (stop, next) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let senders: Vec<_> = (0..SENDERS)
        .map(|_| {
            let (plan, url, acknowledged) =
                (plan.clone(), Arc::clone(&url), Arc::clone(&acknowledged));
            let (stop, next) = (Arc::clone(&stop), Arc::clone(&next));
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    for capture in plan.device(5, number).0 {
                        let (meta, body) = (meta_of(&capture), capture.body().unwrap());
                        // Until it is acknowledged, as devices do; a 412 acknowledges too.
                        while !stop.load(Ordering::Relaxed) {
                            let url = url.lock().unwrap().clone();
                            let id = capture.id.to_string();
                            let status = put_capture(&url, &id, &meta, &body);
                            if matches!(status, Some(201 | 412)) {
                                acknowledged.lock().unwrap().insert(capture.id.to_string());
                                break;
                            }
                            std::thread::sleep(Duration::from_millis(2));
                        }
                    }
                }
            })
        })
        .collect();
    let mut numbers = Numbers(11);
    let mut directory = tempfile::tempdir().unwrap();
    for _ in 0..KILLS {
        let mut collector = Collector::start_in(directory, &[]);
        url.lock().unwrap().clone_from(&collector.url);
        std::thread::sleep(Duration::from_millis(2 + numbers.below(60)));
        collector.process.kill().unwrap();
        collector.process.wait().unwrap();
        directory = collector.into_directory();
    }
    let collector = Collector::start_in(directory, &[]);
    url.lock().unwrap().clone_from(&collector.url);
    // On a busy machine the kills leave less time.
    while acknowledged.lock().unwrap().len() <= 500 {
        std::thread::sleep(Duration::from_millis(20));
    }
    stop.store(true, Ordering::Relaxed);
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    collector.settle();
    let store = collector.store();

    let raw: Vec<String> = collector
        .files("raw")
        .iter()
        .filter_map(|path| RawKey::parse(path.to_str().unwrap()))
        .map(|key| key.id)
        .collect();
    let there: BTreeSet<String> = raw.iter().cloned().collect();
    assert_eq!(raw.len(), there.len(), "each once");
    let acknowledged = acknowledged.lock().unwrap().clone();
    println!("{} acknowledged, {} there", acknowledged.len(), there.len());
    let missing: Vec<_> = acknowledged.difference(&there).collect();
    assert!(missing.is_empty(), "{missing:?}");

    // The tables have them all, and are what the captures make.
    let before = contents(&store);
    assert_eq!(before[0].1.len(), there.len());
    let _directory = collector.into_directory();
    run(Command::new(tracetee()).args(["store", "rebuild", "--store"]).arg(&store));
    for (before, after) in before.iter().zip(contents(&store)) {
        assert_eq!(*before, after);
    }
}
