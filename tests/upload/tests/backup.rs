//! `tracetee store backup`: a copy that is made while a collector works gives the same report, and forgets what the store
//! forgets.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use tracetee_tests::{files_below, stderr, tracetee};
use tracetee_tests_upload::collector::Collector;

#[test]
fn a_backup_beside_a_collector_gives_the_same_report_and_forgets_what_the_store_forgets() {
    let collector = Collector::start(&[]);
    let simulate = |seed: &str, devices: &str| {
        let url = &*collector.url;
        collector.tracetee(&[
            "simulate",
            "--url",
            url,
            "--seed",
            seed,
            "--devices",
            devices,
            "--frames",
            "20",
        ])
    };
    let look = || {
        let arguments =
            ["guard", "--app", "com.example.shop", "--from", "2.0", "--to", "2.1", "--store"];
        let mut command = Command::new(tracetee());
        command.args(arguments).current_dir(collector.directory.path());
        move |store: &str| command.arg(store).output().unwrap().stdout
    };
    let backup = || collector.tracetee(&["store", "backup", "--store", "store", "-o", "copy"]);
    let report =
        |store: &str| collector.tracetee(&["report", "--store", store, "--format", "json"]);
    let [store, copy] = ["store", "copy"].map(|name| collector.directory.path().join(name));
    simulate("1", "40");
    collector.settle();
    look()("store");
    // Beside uploads: whatever has come is a whole capture in the copy.
    let beside = std::thread::scope(|scope| {
        let sender = scope.spawn(|| simulate("2", "200"));
        let mut count = 0;
        while !sender.is_finished() {
            backup();
            count += 1;
        }
        sender.join().unwrap();
        count
    });
    assert!(beside > 0);
    collector.settle();
    let said = backup();
    assert!(said.contains(" were there already"), "{said}");
    let raw = |root: &Path| {
        let root = root.join("raw");
        let name = |path: &PathBuf| path.strip_prefix(&root).unwrap().display().to_string();
        files_below(&root).iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(raw(&store), raw(&copy));
    assert!(raw(&store).len() > 400);
    assert_eq!(report("store"), report("copy"));
    let one = &raw(&store)[0];
    let time = |root: &Path| root.join("raw").join(one).metadata().unwrap().modified().unwrap();
    assert_eq!(time(&store), time(&copy), "retention goes by the time of the arrival");

    let meta: serde_json::Value = {
        let name = raw(&store).into_iter().find(|name| name.ends_with(".json")).unwrap();
        serde_json::from_slice(&fs::read(store.join("raw").join(name)).unwrap()).unwrap()
    };
    let device = meta["install_id"].as_str().unwrap();
    collector.tracetee(&["store", "forget", "--store", "store", device]);
    let said = backup();
    assert!(!said.contains(", 0 deleted"), "{said}");
    assert_eq!(raw(&store), raw(&copy));
    assert_eq!(report("store"), report("copy"));
    let tables = fs::read(copy.join("tables.sqlite")).unwrap();
    assert!(!tables.windows(device.len()).any(|bytes| bytes == device.as_bytes()));

    let refused = |store: &str, to: &str, why: &str| {
        let mut command = Command::new(tracetee());
        command.args(["store", "backup", "--store", store, "-o", to]);
        let output = command.current_dir(collector.directory.path()).output().unwrap();
        let said = stderr(&output);
        assert!(!output.status.success() && said.contains(why), "{said}");
    };
    refused("store", ".", "is not empty, and no backup");
    refused("store", "store/raw/copy", "is inside the store");
    refused("copy/raw", "other", "is not the store of a collector");

    // A collector that is started on the copy has nothing to do, and its guard continues from the same state.
    assert!(!look()("copy").is_empty() && look()("copy") == look()("store"));
    let whole = report("store");
    let restored = TempDir::new().unwrap();
    fs::rename(&copy, restored.path().join("store")).unwrap();
    let restored = Collector::start_in(restored, &[]);
    restored.settle();
    assert_eq!(restored.tracetee(&["report", "--store", "store", "--format", "json"]), whole);
    assert!(restored.metrics().contains("\ntracetee_analysed_total 0\n"));
}
