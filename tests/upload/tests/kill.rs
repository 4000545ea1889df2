//! The process that sends is killed three hundred times, wherever it is.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;
use tracetee_tests_upload::Numbers;
use tracetee_tests_upload::account::Account;
use tracetee_tests_upload::chaos::Server;

const KILLS: u64 = 300;

#[test]
fn killed_three_hundred_times_nothing_is_lost_untold_or_comes_twice() {
    let server = Server::start(7, u64::MAX, 30);
    let directory = tempfile::tempdir().unwrap();
    let (spool, made) = (directory.path().join("spool"), directory.path().join("made"));
    let sender = |count: &str, seed: u64| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sender"));
        command.arg(&spool).arg(server.url()).arg(&made).args([count, &seed.to_string()]);
        command
    };
    let mut numbers = Numbers(3);
    let mut ended = 0;
    for kill in 0..KILLS {
        let mut process = sender("1000000", kill).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(1_000 + numbers.below(60_000)));
        // It runs forever, so an end of its own would be a failure of its own.
        ended += u64::from(process.try_wait().unwrap().is_some());
        process.kill().unwrap();
        process.wait().unwrap();
    }
    assert_eq!(ended, 0, "it panicked");
    server.calm_down();
    assert!(sender("0", 0).status().unwrap().success());

    let ids = std::fs::read_to_string(&made).unwrap();
    let made: BTreeMap<String, _> = ids.lines().map(|id| (id.to_owned(), None)).collect();
    let account = Account::of(&made, &server.store());
    println!("{account:?} of {}; {:?}", made.len(), server.store().faults);
    assert!(made.len() > 300 && account.arrived > 100, "{account:?} of {}", made.len());
    for directory in ["rec", "ready", "sending", "lost"] {
        let left = std::fs::read_dir(spool.join(directory)).unwrap().count();
        assert_eq!(left, 0, "{directory}");
    }
    // Processes that died leave no locks, but for what they were just making.
    let owners = std::fs::read_dir(spool.join("owners")).unwrap();
    let owners = owners.map(|one| one.unwrap().file_name().into_string().unwrap());
    let owners: Vec<String> = owners.filter(|name| !name.ends_with(".new")).collect();
    assert!(owners.len() <= 1, "{owners:?}");
}
