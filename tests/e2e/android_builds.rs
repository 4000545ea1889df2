//! The four Android libraries that `tests/cross/run` has built: what an app's linker will see.
//!
//! `tests/cross/loadable` compares their symbols with what bionic exports; `tests/android/run bionic` executes
//! the two for ARM.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tracetee_tests::link_map::bytes_by_part;
use tracetee_tests::{cache, compile, root, skip, source};

const ABIS: [&str; 4] = ["arm64-v8a", "armeabi-v7a", "x86_64", "x86"];
/// Bytes of each library, of it compressed, and of each of its parts, as measured when they were last argued.
const SIZES: &str = "tests/fixtures/android_sizes.csv";
/// Growth of a part that the optimiser makes by itself when another part changes.
const NOISE_BYTES: u64 = 512;

fn library(abi: &str) -> Option<PathBuf> {
    let path = cache("cross/out").join(abi).join("libtracetee.so");
    path.exists().then_some(path)
}

/// Asks `loadable`; `real` are copies of a device's libraries.
fn loadable(abi: &str, library: &Path, real: &[PathBuf]) -> Output {
    let script = root().join("tests/cross/loadable");
    Command::new(script).arg(abi).arg(library).args(real).output().unwrap()
}

fn text(output: &Output) -> String {
    let (said, failed) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{said}{failed}")
}

#[test]
fn each_android_library_is_aligned_closed_and_needs_only_the_systems_own() {
    for abi in ABIS {
        let Some(path) = library(abi) else {
            return skip("tests/cross/run has not built the Android libraries");
        };
        let readelf = |option: &str| {
            let output = Command::new("readelf").arg(option).arg(&path).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };

        let dynamic = readelf("-dW");
        let needed: Vec<_> = dynamic
            .lines()
            .filter(|line| line.contains("(NEEDED)"))
            .map(|line| line.rsplit_once('[').unwrap().1.trim_end_matches(']'))
            .collect();
        // Those whose symbols `loadable` knows.
        let allowed = ["libc.so", "libdl.so", "libm.so"];
        assert!(needed.iter().all(|library| allowed.contains(library)), "{abi} {needed:?}");
        assert!(needed.contains(&"libc.so"), "{abi}");
        assert!(dynamic.contains("[libtracetee.so]"), "{abi}");
        // A handle that is closed too often must not unload the hooks' code. The linker of Android 5 warns of flags and GNU hash tables.
        let flags = dynamic.lines().find(|line| line.contains("(FLAGS_1)")).unwrap();
        assert!(flags.ends_with("Flags: NOW NODELETE"), "{abi} {flags}");
        assert!(!dynamic.contains("GNU_HASH"), "{abi}");

        let segments = readelf("-lW");
        let loads = segments.lines().filter(|line| line.trim_start().starts_with("LOAD"));
        for line in loads {
            assert!(line.ends_with("0x4000"), "{abi} 16 KB pages: {line}");
            assert!(!line.contains("RWE"), "{abi} {line}");
        }

        let symbols = Command::new("nm").args(["-D", "--defined-only"]).arg(&path).output();
        let symbols = String::from_utf8(symbols.unwrap().stdout).unwrap();
        let names: Vec<_> = symbols.lines().map(|line| line.rsplit_once(' ').unwrap().1).collect();
        assert!(names.contains(&"tracetee_start") && names.contains(&"JNI_OnLoad"), "{abi}");
        assert!(
            names.iter().all(|name| name.starts_with("tracetee_") || *name == "JNI_OnLoad"),
            "{abi} {names:?}"
        );
        println!("{abi} needs {needed:?}");
    }
}

/// Runs a program on a file.
fn output(program: &str, arguments: &[&str], file: &Path) -> String {
    let output = Command::new(program).args(arguments).arg(file).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn released_symbols_are_those_of_the_library_by_build_id_and_name_lines() {
    for abi in ABIS {
        let Some(path) = library(abi) else {
            return skip("tests/cross/run has not built the Android libraries");
        };
        let symbols = cache("cross/out").join("symbols").join(abi).join("libtracetee.so");
        let build_id = |file: &Path| {
            let notes = output("readelf", &["-nW"], file);
            notes.split_once("Build ID: ").map(|(_, id)| id.trim_end().to_owned())
        };
        assert_eq!(build_id(&path).unwrap().len(), 40, "{abi}");
        assert_eq!(build_id(&path), build_id(&symbols), "{abi}");
        // Kind, address, offset and size of the code.
        let code = |file: &Path| {
            let sections = output("readelf", &["-SW"], file);
            let line = sections.lines().find(|line| line.contains(" .text ")).unwrap();
            line.split_once(" .text ").unwrap().1.to_owned()
        };
        assert_eq!(code(&path), code(&symbols), "{abi}");
        assert!(!output("readelf", &["-SW"], &path).contains(".symtab"), "{abi}");
        assert!(output("readelf", &["-sW"], &symbols).contains("tracetee_tee"), "{abi}");
        let sections = output("readelf", &["-SW"], &symbols);
        assert!(sections.contains(".debug_line"), "{abi}");
    }
    // Debian's addr2line reads this machine's processor only.
    let symbols = cache("cross/out").join("symbols/x86_64/libtracetee.so");
    let exported = output("nm", &["-D", "--defined-only"], &symbols);
    let address = exported.lines().find_map(|line| line.strip_suffix(" T tracetee_start")).unwrap();
    let line = output("addr2line", &[address, "-e"], &symbols);
    assert!(line.starts_with("./agent/src/") && line.contains(".rs:"), "{line}");
}

/// Bytes by name: of the file, of the file compressed as in an APK, and of its parts.
fn sizes(library: &Path) -> BTreeMap<String, u64> {
    let map = std::fs::read_to_string(library.with_extension("map")).unwrap();
    let mut sizes = bytes_by_part(&map);
    let compressed = Command::new("gzip").args(["-9", "-n", "-c"]).arg(library).output().unwrap();
    assert!(compressed.status.success());
    sizes.insert("gzip -9".to_owned(), compressed.stdout.len() as u64);
    sizes.insert("file".to_owned(), library.metadata().unwrap().len());
    sizes
}

#[test]
fn no_library_and_no_part_of_one_grows_unnoticed() {
    let mut measured = Vec::new();
    for abi in ABIS {
        let Some(path) = library(abi) else {
            return skip("tests/cross/run has not built the Android libraries");
        };
        measured.push(sizes(&path));
    }
    let mut names: Vec<&String> = measured.iter().flat_map(BTreeMap::keys).collect();
    names.sort_by_key(|name| (Reverse(measured[0].get(*name)), *name));
    names.dedup();
    let mut table = format!("part,{}\n", ABIS.join(","));
    for name in names {
        let bytes = measured.iter().map(|sizes| sizes.get(name).copied().unwrap_or(0).to_string());
        table += &format!("{name},{}\n", bytes.collect::<Vec<_>>().join(","));
    }
    println!("{table}");
    let path = root().join(SIZES);
    if std::env::var_os("TRACETEE_BLESS").is_some() {
        return std::fs::write(path, table).unwrap();
    }
    let stored = std::fs::read_to_string(path).unwrap();
    let grown = growth(&stored, &table);
    assert!(
        grown.is_empty(),
        "{grown}argue the growth in the commit, and store it: TRACETEE_BLESS=1 cargo test --release -p \
         tracetee-tests --test android_builds"
    );
}

/// One line for each number of `table` that is 1 % larger than in `stored`.
fn growth(stored: &str, table: &str) -> String {
    let cells = |table: &str| -> BTreeMap<(String, usize), u64> {
        let rows = table.lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect());
        rows.flat_map(|row: Vec<String>| {
            let bytes = row.clone().into_iter().enumerate().skip(1);
            bytes.map(move |(column, bytes)| ((row[0].clone(), column), bytes.parse().unwrap()))
        })
        .collect()
    };
    let stored = cells(stored);
    let mut lines = String::new();
    for ((part, column), bytes) in cells(table) {
        let before = stored.get(&(part.clone(), column)).copied().unwrap_or(0);
        let is_whole = ["file", "gzip -9"].contains(&part.as_str());
        let room = if is_whole { before / 100 } else { NOISE_BYTES.max(before / 100) };
        if bytes > before + room {
            lines +=
                &format!("{part} of {} has {bytes} bytes, {before} before\n", ABIS[column - 1]);
        }
    }
    lines
}

#[test]
fn growth_by_more_than_a_hundredth_is_named() {
    let table = |file: u64, std: u64| {
        format!("part,arm64-v8a,armeabi-v7a,x86_64,x86\nfile,{file},1,1,1\nstd,1,1,{std},1\n")
    };
    assert_eq!(growth(&table(560_000, 90_000), &table(565_600, 90_900)), "");
    assert_eq!(growth(&table(560_000, 1_000), &table(100, 1_512)), "");
    assert_eq!(
        growth(&table(560_000, 90_000), &table(565_601, 90_901)),
        "file of arm64-v8a has 565601 bytes, 560000 before\nstd of x86_64 has 90901 bytes, 90000 before\n"
    );
}

#[test]
fn bionic_of_api_21_has_every_symbol_of_each_android_library() {
    let mut obstacles = String::new();
    for abi in ABIS {
        let Some(path) = library(abi) else {
            return skip("tests/cross/run has not built the Android libraries");
        };
        let output = loadable(abi, &path, &[]);
        if !output.status.success() {
            obstacles += &text(&output);
        }
    }
    assert!(obstacles.is_empty(), "{obstacles}");
}

#[test]
fn the_libraries_of_android_6_have_every_symbol_of_the_arm_libraries() {
    // The emulator's package brings them; tests/android/run fetches it.
    let packages = std::fs::read_dir(cache("maven/unidbg")).unwrap();
    let mut packages = packages.map(|entry| entry.unwrap().path());
    let is_android = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with("unidbg-android") && name.ends_with(".jar")
    };
    let Some(package) = packages.find(is_android) else {
        return skip("tests/android/run has not fetched unidbg");
    };
    let unpacked = tempfile::tempdir().unwrap();
    let unzip = Command::new("unzip")
        .arg("-q")
        .arg(&package)
        .args(["android/sdk23/lib/*", "android/sdk23/lib64/*", "-d"])
        .arg(unpacked.path())
        .status();
    assert!(unzip.unwrap().success());
    for (abi, directory) in [("arm64-v8a", "lib64"), ("armeabi-v7a", "lib")] {
        let Some(path) = library(abi) else {
            return skip("tests/cross/run has not built the Android libraries");
        };
        let real = unpacked.path().join("android/sdk23").join(directory);
        let real = ["libc.so", "libdl.so", "libm.so"].map(|name| real.join(name));
        let output = loadable(abi, &path, &real);
        assert!(output.status.success(), "{}", text(&output));
    }
}

#[test]
fn missing_symbols_of_bionic_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("libnot.so");
    let flags =
        ["-shared", "-fPIC", "-nostdlib", "-ftls-model=global-dynamic", "-Wl,--hash-style=gnu"];
    compile(&path, &[source("fixtures/not_for_bionic.c")], &flags);
    // As if these were the device's: they have none of the symbols.
    let output = loadable("x86_64", &path, std::slice::from_ref(&path));
    let said = text(&output);
    assert!(!output.status.success(), "{said}");
    let mut lines: Vec<_> = said.lines().map(|line| line.split_once(": ").unwrap().1).collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "__errno_location: bionic has no such symbol",
            "__errno_location: not in the given libraries",
            "__tls_get_addr: bionic has it from API 29 on",
            "__tls_get_addr: not in the given libraries",
            "fflush: not in the given libraries",
            "getentropy: bionic has it from API 28 on",
            "getentropy: not in the given libraries",
            "has no DT_HASH",
            "has thread-local storage of ELF's",
            "stderr: bionic has it from API 23 on",
            "stderr: not in the given libraries",
            "trace_begin: bionic has no such symbol",
        ]
    );
    let output = loadable("x86", &path, &[]);
    assert!(text(&output).contains("is not for x86"), "{}", text(&output));
    // No library at all: nothing that was missed is taken for a yes.
    assert!(!loadable("x86", &directory.path().join("none"), &[]).status.success());
}
