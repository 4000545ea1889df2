//! The collector is killed two hundred times, wherever it is, while a fleet sends captures and parts of ledgers. What it has
//! acknowledged is there, once, and its tables are those that its captures and ledgers make.

use fastrand::Rng;
use std::collections::BTreeSet;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracetee_fleet::ledger::id_of;
use tracetee_fleet::object_keys::{RawKey, ReportKey};
use tracetee_simulate::Plan;
use tracetee_simulate::ledger::DeviceDay;
use tracetee_tests::tracetee;
use tracetee_tests_fleet::{contents, meta_of, today};
use tracetee_tests_upload::Numbers;
use tracetee_tests_upload::collector::{Collector, put_capture, put_part, run};

const KILLS: u64 = 200;
const SENDERS: u64 = 4;

/// The part of a ledger of one of the devices.
fn part_of(device: u64) -> DeviceDay {
    let names = ["com.example.shop", &format!("device {device}")];
    DeviceDay::new(&mut Rng::with_seed(device), names, [today(), 21, 0], 50, 20)
}

/// Sends until it is acknowledged, as devices do; a 412 acknowledges too. Returns false if the test ends before.
fn send(stop: &AtomicBool, url: &Mutex<String>, attempt: &dyn Fn(&str) -> Option<u16>) -> bool {
    while !stop.load(Ordering::Relaxed) {
        let url = url.lock().unwrap().clone();
        if matches!(attempt(&url), Some(201 | 412)) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    false
}

#[test]
fn an_acknowledged_upload_is_stored_once_whenever_the_collector_is_killed() {
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
                        let id = capture.id.to_string();
                        if send(&stop, &url, &|url| put_capture(url, &id, &meta, &body)) {
                            acknowledged.lock().unwrap().insert(id);
                        }
                    }
                    let day = part_of(number);
                    if send(&stop, &url, &|url| put_part(url, &day)) {
                        let id = id_of(&format!("device {number}"), &day.part);
                        acknowledged.lock().unwrap().insert(id);
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

    let [captures, parts] = ["raw", "ledgers"].map(|directory| {
        let paths = collector.files(directory);
        let paths = paths.iter().map(|path| path.to_str().unwrap());
        let id = |path| Some(ReportKey::parse(path)?.name.split_once('.')?.0.to_owned());
        let ids =
            paths.filter_map(|path| RawKey::parse(path).map(|key| key.id).or_else(|| id(path)));
        ids.collect::<Vec<String>>()
    });
    let there: BTreeSet<&String> = captures.iter().chain(&parts).collect();
    assert_eq!(captures.len() + parts.len(), there.len(), "each once");
    let acknowledged = acknowledged.lock().unwrap().clone();
    println!("{} acknowledged, {} there", acknowledged.len(), there.len());
    let missing: Vec<_> = acknowledged.iter().filter(|id| !there.contains(id)).collect();
    assert!(missing.is_empty(), "{missing:?}");

    // The tables have them all, and are what the captures make.
    let before = contents(&store);
    let rows = |table: &str| before.iter().find(|(name, _)| *name == table).unwrap().1.len();
    assert_eq!([rows("captures"), rows("ledger_days")], [captures.len(), parts.len()]);
    let _directory = collector.into_directory();
    run(Command::new(tracetee()).args(["store", "rebuild", "--store"]).arg(&store));
    for (before, after) in before.iter().zip(contents(&store)) {
        assert_eq!(*before, after);
    }
}
