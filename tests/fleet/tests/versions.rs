//! A store of another version is refused and left as it is, with the command that rebuilds it from the captures.

use rusqlite::Connection;
use std::path::Path;
use std::process::Command;
use tracetee_fleet::schema::FILE_VERSION;
use tracetee_tests::tracetee;
use tracetee_tests_fleet::contents;
use tracetee_tests_upload::collector::{Collector, run};

/// Each command that reads or writes the tables of a store is refused with these texts, and changes nothing.
fn is_refused(directory: &Path, texts: &[&str], commands: &[&[&str]]) {
    let before = std::fs::read(directory.join("store/tables.sqlite")).unwrap();
    for command in commands {
        let mut program = Command::new(tracetee());
        let output = program.args(*command).current_dir(directory).output().unwrap();
        assert!(!output.status.success(), "{command:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(texts.iter().all(|text| error.contains(text)), "{command:?}: {error}");
    }
    assert_eq!(std::fs::read(directory.join("store/tables.sqlite")).unwrap(), before);
}

#[test]
fn a_store_of_another_version_is_refused_and_rebuilt_from_its_captures() {
    let collector = Collector::start(&[]);
    let url = collector.url.clone();
    collector.tracetee(&["simulate", "--to", &url, "--devices", "12", "--frames", "30"]);
    collector.settle();
    let directory = collector.into_directory();
    let store = directory.path().join("store");
    let expected = contents(&store);
    let set_version = |version: i64| {
        let tables = Connection::open(store.join("tables.sqlite")).unwrap();
        tables.pragma_update(None, "user_version", version).unwrap();
    };
    let users: [&[&str]; 3] = [
        &["report", "--store", "store"],
        &["store", "forget", "--store", "store", "d1"],
        &["collect", "--listen", "127.0.0.1:0", "--store", "store"],
    ];
    let rebuild: &[&str] = &["store", "rebuild", "--store", "store"];

    set_version(FILE_VERSION - 1);
    let [older, needed] =
        [FILE_VERSION - 1, FILE_VERSION].map(|version| format!("version {version}"));
    let command = "`tracetee store rebuild --store store`";
    is_refused(directory.path(), &["store/tables.sqlite", &older, &needed, command], &users);
    run(Command::new(tracetee()).args(rebuild).current_dir(directory.path()));
    for (rebuilt, expected) in contents(&store).iter().zip(&expected) {
        assert_eq!(rebuilt, expected);
    }

    // Tables of a newer version may be in use: a rebuild does not replace them.
    set_version(FILE_VERSION + 1);
    let newer = "was written by a newer tracetee";
    is_refused(directory.path(), &[newer], &[users[0], users[1], users[2], rebuild]);
}
