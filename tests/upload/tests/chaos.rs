//! A thousand captures through ten thousand faults: each arrives once, or is told to be lost.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tracetee_tests_upload::account::Account;
use tracetee_tests_upload::chaos::Server;
use tracetee_tests_upload::{Numbers, at_ms, write_capture};
use tracetee_uploader::http::Http;
use tracetee_uploader::{Conditions, Endpoint, NetState, Quota, Spool, Uploader};

const CAPTURES: u64 = 1_000;
const FAULTS: u64 = 10_000;

#[test]
fn a_thousand_captures_come_through_ten_thousand_faults_once_each_or_are_told_to_be_lost() {
    let seed = std::env::var("SEED").map_or(1, |seed| seed.parse().unwrap());
    let server = Server::start(seed, FAULTS, 100);
    let directory = tempfile::tempdir().unwrap();
    let mut spool = Spool::open(directory.path()).unwrap();
    let same = Spool::open(directory.path()).unwrap();
    let endpoint = Endpoint::new(&server.url(), Some("t0ken"), false).unwrap();
    let mut uploader = Uploader::new(
        same,
        endpoint,
        tracetee_protocol::CaptureMeta { install_id: Some("i".to_owned()), ..Default::default() },
    );
    let mut http = Http::new(None).unwrap();
    let quota = Quota { age: Duration::from_secs(400 * 86_400), ..Quota::default() };
    let mut conditions =
        Conditions { net: NetState::MAINS, quota, poll: None, ..Conditions::default() };
    conditions.rules.bytes_per_day = u64::MAX;
    let stop = AtomicBool::new(false);

    let (mut numbers, mut made, mut ms) = (Numbers(seed + 1), BTreeMap::new(), 0);
    loop {
        let clock = || at_ms(ms);
        // They come as they do on a phone: a few at a time.
        while (made.len() as u64) < CAPTURES && spool.waiting(clock()).len() < 25 {
            let priority = u32::try_from(numbers.below(3)).unwrap();
            let recording = spool.begin("w", priority, clock()).unwrap();
            write_capture(recording.path(), made.len() as u64, &mut numbers);
            let digest = hmac_sha256::Hash::hash(&std::fs::read(recording.path()).unwrap());
            made.insert(recording.id(), Some(digest));
            spool.seal(recording, &quota, clock()).unwrap();
        }
        let pass = uploader.pass(&mut http, &conditions, &clock, &stop);
        let is_done = pass.held.is_none() && made.len() as u64 == CAPTURES;
        if is_done {
            break;
        }
        ms += u64::try_from(pass.again.as_millis()).unwrap();
    }
    let faults_left = server.faults_left();
    let store = server.store();
    let account = Account::of(&made, &store);
    println!("{account:?}\n{:?}\nfaults left: {faults_left}", store.faults);
    let made_faults: u64 = store.faults.values().sum();
    assert!(made_faults > FAULTS * 9 / 10, "{made_faults} faults in {ms} ms");
    assert_eq!(store.faults.len(), 20, "every kind");
    assert!(account.arrived > CAPTURES / 3, "{account:?}");
    assert!(!account.lost.is_empty(), "{account:?}");
    let status = uploader.status(at_ms(ms));
    assert_eq!((status.waiting, status.lost.len()), (0, 0));
}
