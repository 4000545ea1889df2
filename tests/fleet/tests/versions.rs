//! The file of the tables: any SQLite reads it; another version is refused and left as it is, with the command that rebuilds it
//! from the captures.

use rusqlite::Connection;
use std::path::Path;
use std::process::Command;
use tracetee_fleet::sums::schema::FILE_VERSION;
use tracetee_tests::tools::{on_path, tool};
use tracetee_tests::{root, tracetee};
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

/// Runs the program sqlite3 on the tables of a store and returns the lines of its answer.
fn sqlite3(program: &Path, store: &Path, sql: &str) -> Vec<String> {
    let mut command = Command::new(program);
    command.args(["-batch", "-bail", "-quote"]).arg(store.join("tables.sqlite")).arg(sql);
    run(&mut command).lines().map(str::to_owned).collect()
}

#[test]
fn sqlite3_reads_all_tables_and_answers_the_documented_queries() {
    let Some(program) = tool(on_path(&["sqlite3"]), "sqlite3") else { return };
    let collector = Collector::start(&[]);
    collector.simulate(12, 30, &[]);
    // The collector still has the file open.
    let store = collector.store();
    let tables = sqlite3(&program, &store, ".tables").join(" ");
    let tables: Vec<&str> = tables.split_whitespace().collect();
    let expected =
        ["captures", "losses", "frame_rollups", "reach", "device_values", "contributions"];
    assert!(expected.iter().all(|name| tables.contains(name)), "{tables:?}");
    for name in tables {
        let blobs = format!("SELECT name FROM pragma_table_info('{name}') WHERE type = 'BLOB'");
        let blobs = sqlite3(&program, &store, &blobs);
        assert_eq!(blobs.len(), usize::from(name == "contributions"), "{name}: {blobs:?}");
        let rows = sqlite3(&program, &store, &format!("SELECT count(*), * FROM {name}"));
        let is_empty = rows.iter().all(|row| row.starts_with("0,"));
        assert!(!(is_empty && expected.contains(&name) && name != "losses"), "{name}: {rows:?}");
    }
    let page = std::fs::read_to_string(root().join("collector/README.md")).unwrap();
    let queries = page.split("```sql\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let queries: Vec<&str> = queries.split(";\n").filter(|query| !query.is_empty()).collect();
    assert!(queries.len() >= 5, "{queries:?}");
    for query in queries {
        // An argument that begins with a comment would be an option.
        assert!(!sqlite3(&program, &store, &format!("\n{query}")).is_empty(), "{query}");
    }
}

#[test]
fn a_store_of_another_version_is_refused_and_rebuilt_from_its_captures() {
    let collector = Collector::start(&[]);
    collector.simulate(12, 30, &[]);
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
