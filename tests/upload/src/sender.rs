//! A process of an app that makes captures and sends them until it is killed: `sender SPOOL URL MADE
//! COUNT SEED`. The clock runs two hundred thousand times as fast, the same in all processes. Writes the id
//! of each capture to the file MADE when it is in the spool's `rec/`, whole.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};
use tracetee_tests_upload::{Numbers, at_ms, write_capture};
use tracetee_uploader::http::Http;
use tracetee_uploader::{Conditions, Endpoint, Error, NetState, Now, Quota, Spool, Uploader};

/// Speed of the clock, as a factor.
const SPEED: u64 = 200_000;

fn now() -> Now {
    // From a day that all processes agree on.
    let since = SystemTime::UNIX_EPOCH + Duration::from_secs(1_790_000_000);
    let ms = SystemTime::now().duration_since(since).unwrap().as_millis();
    at_ms(u64::try_from(ms).unwrap() * SPEED)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [root, url, made, count, seed] = &arguments[..] else { panic!("five arguments") };
    let mut numbers = Numbers(seed.parse().unwrap());
    let count: u64 = count.parse().unwrap();
    let quota = Quota { age: Duration::from_secs(3650 * 86_400), ..Quota::default() };
    let mut spool = Spool::open(Path::new(root)).unwrap();
    if let Some(recovery) = spool.lock_recovery() {
        for taken in spool.recover(&recovery, &quota, now()) {
            // Killed before its first whole frame: it is in the loss report.
            assert!(matches!(taken, Ok(_) | Err(Error::NotKept { .. })), "{taken:?}");
        }
    }
    let endpoint = Endpoint::new(url, Some("t0ken"), false).unwrap();
    let same = Spool::open(Path::new(root)).unwrap();
    let mut uploader = Uploader::new(
        same,
        endpoint,
        tracetee_protocol::CaptureMeta { install_id: Some("i".to_owned()), ..Default::default() },
    );
    let mut http = Http::new(None).unwrap();
    let mut conditions =
        Conditions { net: NetState::MAINS, quota, poll: None, ..Conditions::default() };
    conditions.rules.bytes_per_day = u64::MAX;
    let mut log = File::options().append(true).create(true).open(made).unwrap();
    let stop = AtomicBool::new(false);
    let mut number = 0;
    loop {
        if number < count && spool.waiting(now()).len() < 20 {
            number += 1;
            let recording = spool.begin("w", 0, now()).unwrap();
            write_capture(recording.path(), number, &mut numbers);
            log.write_all(format!("{}\n", recording.id()).as_bytes()).unwrap();
            // Lost to a quota it is in the loss report.
            let _ = spool.seal(recording, &quota, now());
        }
        let pass = uploader.pass(&mut http, &conditions, &now, &stop);
        if number == count && pass.held.is_none() {
            return;
        }
        std::thread::sleep(Duration::from_micros(numbers.below(3_000)));
    }
}
