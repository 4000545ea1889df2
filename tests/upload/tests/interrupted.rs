//! `store forget`, `rebuild` and `backup` are killed wherever they are. Each is ended or undone: by the next command, or by a running
//! collector; and uploads of a device that is being forgotten are put off, never acknowledged and lost.

use serde_json::{Map, Value};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tracetee_fleet::database::Database;
use tracetee_tests::{files_below, read_if_there, tracetee};
use tracetee_tests_upload::collector::{Collector, put_capture, run};

const KILLS: u32 = 24;
/// Time in which a collector ends what was killed: the minute, and a machine that others use is slow.
const PATIENCE: Duration = Duration::from_secs(120);

/// Files that have a text, SQLite's free pages and logs included.
fn with_text(directory: &Path, text: &str) -> Vec<PathBuf> {
    let has = |path: &PathBuf| {
        read_if_there(path).windows(text.len()).any(|window| window == text.as_bytes())
    };
    files_below(directory).into_iter().filter(has).collect()
}

fn copy(from: &Path, to: &Path) {
    run(Command::new("cp").arg("-a").args([from, to]));
}

fn command(arguments: &[&str], store: &Path) -> Command {
    let mut command = Command::new(tracetee());
    command.args(arguments).arg("--store").arg(store).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn report(store: &Path) -> String {
    run(Command::new(tracetee()).args(["report", "--format", "json", "--store"]).arg(store))
}

/// A store, the metadata of one of its captures with a copy of the body, and the directory that has it.
fn store() -> (TempDir, PathBuf, Map<String, Value>, Vec<u8>) {
    let collector = Collector::start(&[]);
    collector.simulate(30, 12, &[]);
    let (meta, body) = a_capture(&collector);
    let directory = collector.into_directory();
    let store = directory.path().join("store");
    (directory, store, meta, body)
}

fn a_capture(collector: &Collector) -> (Map<String, Value>, Vec<u8>) {
    let meta = collector.files("raw").into_iter().find(|path| path.extension().unwrap() == "json");
    let meta = meta.unwrap();
    let body = fs::read(meta.with_extension("ftrace.zst")).unwrap();
    (serde_json::from_slice(&fs::read(meta).unwrap()).unwrap(), body)
}

/// Kills a command at so many points of its time, each time on a copy of the store, and gives what is left to `check`. Returns in how
/// many kills the command had begun and had not ended.
fn kill(
    make: &dyn Fn(&Path) -> Command,
    store: &Path,
    intents: &str,
    check: &dyn Fn(&Path),
) -> u32 {
    let directory = TempDir::new().unwrap();
    let whole = directory.path().join("whole");
    copy(store, &whole);
    let began = Instant::now();
    assert!(make(&whole).status().unwrap().success());
    let time = began.elapsed();
    let mut interrupted = 0;
    for number in 0..KILLS {
        let own_store = directory.path().join(number.to_string());
        copy(store, &own_store);
        let mut process = make(&own_store).spawn().unwrap();
        std::thread::sleep(time * number / KILLS);
        process.kill().unwrap();
        process.wait().unwrap();
        interrupted += u32::from(!files_below(&own_store.join(intents)).is_empty());
        check(&own_store);
        fs::remove_dir_all(own_store).unwrap();
    }
    println!("{interrupted} of {KILLS} interrupted; it takes {time:?}");
    interrupted
}

#[test]
fn a_forget_that_is_killed_is_ended_by_the_next_command() {
    let (_directory, store, meta, _) = store();
    let device = meta["install_id"].as_str().unwrap();
    let before = with_text(&store, device).len();
    let make = |store: &Path| command(&["store", "forget", device], store);
    let interrupted = kill(&make, &store, "intents", &|store| {
        report(store);
        let left = with_text(store, device);
        assert!(left.is_empty() || left.len() >= before - 1, "all of it or nothing: {left:?}");
        assert_eq!(files_below(&store.join("intents")), [""; 0].map(PathBuf::from));
        // Another one finds the store free.
        assert!(make(store).status().unwrap().success());
        assert_eq!(with_text(store, device), [""; 0].map(PathBuf::from));
    });
    assert!(interrupted > 0, "no kill hit it");
}

#[test]
fn a_forget_that_is_killed_is_ended_by_the_collector_and_no_upload_is_lost() {
    let collector = Collector::start(&[]);
    collector.simulate(30, 12, &[]);
    let (meta, body) = a_capture(&collector);
    let (store, device) = (collector.store(), meta["install_id"].as_str().unwrap());
    let has_begun =
        || files_below(&store.join("intents")).iter().any(|path| !path.ends_with("new"));
    let (mut put_off, mut interrupted) = (0, 0);
    for number in 0..6_u32 {
        let mut forget = command(&["store", "forget", device], &store).spawn().unwrap();
        while !has_begun() && forget.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_micros(100));
        }
        std::thread::sleep(Duration::from_millis(u64::from(number) * 4));
        forget.kill().unwrap();
        forget.wait().unwrap();
        interrupted += u32::from(has_begun());
        let id = format!("019a1fd7-2955-7cfa-a44a-a7427d95{number:04}");
        let until = Instant::now() + PATIENCE;
        // As devices do: until it is acknowledged.
        loop {
            match put_capture(&collector.url, &id, &meta, &body) {
                Some(201) => break,
                Some(503) => put_off += 1,
                other => panic!("{other:?}"),
            }
            assert!(Instant::now() < until, "nobody ended the forget: {}", collector.log());
            std::thread::sleep(Duration::from_millis(200));
        }
        collector.settle();
        let stored: Vec<_> = with_text(&store.join("raw"), device);
        assert_eq!(
            stored.len(),
            1,
            "what was sent before is gone, what was acknowledged later is there"
        );
        assert!(stored[0].to_str().unwrap().contains(&id), "{stored:?}");
    }
    println!("{interrupted} of 6 interrupted, {put_off} uploads put off");
    assert!(interrupted > 0 && put_off > 0);
    collector.log_with("ended a `store forget` that was interrupted");
}

#[test]
fn a_rebuild_that_is_killed_leaves_the_old_tables_or_the_new_ones() {
    let (_directory, store, ..) = store();
    let before = report(&store);
    let names = |store: &Path| {
        let names = fs::read_dir(store).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        // Of a reader.
        names.retain(|name| !name.starts_with("tables.sqlite-"));
        names.sort();
        names
    };
    let make = |store: &Path| command(&["store", "rebuild"], store);
    assert!(make(&store).status().unwrap().success());
    report(&store);
    let known = names(&store);
    let interrupted = kill(&make, &store, "intents", &|store| {
        assert_eq!(report(store), before);
        assert_eq!(names(store), known, "nothing is left of it");
        assert!(files_below(&store.join("intents")).is_empty());
    });
    assert!(interrupted > 0, "no kill hit it");
}

#[test]
fn a_backup_that_is_killed_leaves_a_store_of_what_was_copied() {
    let (_directory, store, ..) = store();
    let whole = report(&store);
    let make = |path: &Path| {
        let mut command = command(&["store", "backup"], path);
        command.arg("-o").arg(path.join("../copy"));
        command
    };
    let interrupted = std::cell::Cell::new(0);
    kill(&make, &store, "intents", &|path| {
        let copy = path.join("../copy");
        if !files_below(&copy.join("intents")).is_empty() {
            interrupted.set(interrupted.get() + 1);
        }
        if copy.join("tables.sqlite").exists() {
            report(&copy);
            assert!(files_below(&copy.join("intents")).is_empty());
            let parts = files_below(&copy);
            assert!(
                parts
                    .iter()
                    .all(|path| path.extension().is_none_or(|extension| extension != "part"))
            );
            let tables = Database::read(&copy.join("tables.sqlite")).unwrap();
            let rows = tables.by_age().unwrap().len();
            let stored = files_below(&copy.join("raw"));
            let stored = stored.iter().filter(|path| path.extension().unwrap() == "zst").count();
            assert!(rows <= stored, "no row without its capture");
        }
        // The next one ends it.
        assert!(make(path).status().unwrap().success());
        assert_eq!(report(&copy), whole);
        fs::remove_dir_all(copy).unwrap();
    });
    println!("{} of {KILLS} interrupted", interrupted.get());
    assert!(interrupted.get() > 0, "no kill hit it");
}
