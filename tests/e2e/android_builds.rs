//! The four Android libraries that `tests/cross/run` has built: what an app's linker will see.
//!
//! `tests/cross/loadable` compares their symbols with what bionic exports; `tests/android/run bionic` executes
//! the two for ARM.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tracetee_tests::{cache, compile, root, skip, source};

/// The ABIs, and what each library may weigh in bytes: the table of docs/ANDROID.md, and some room. Growth is to be
/// noticed and argued.
const ABIS: [(&str, u64); 4] =
    [("arm64-v8a", 1_142_000), ("armeabi-v7a", 824_000), ("x86_64", 1_259_000), ("x86", 1_373_000)];

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
    for (abi, budget_bytes) in ABIS {
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
        assert!(dynamic.contains("[libtracetee.so]") && dynamic.contains("NODELETE"), "{abi}");

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
        let bytes = path.metadata().unwrap().len();
        assert!(bytes <= budget_bytes, "{abi} has {bytes} bytes");
        println!("{abi}: {bytes} bytes, needs {needed:?}");
    }
}

#[test]
fn bionic_of_api_21_has_every_symbol_of_each_android_library() {
    let mut obstacles = String::new();
    for (abi, _) in ABIS {
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
fn what_bionic_lacks_is_named() {
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
