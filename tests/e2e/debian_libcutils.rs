//! Debian's build of the real AOSP libcutils: its tag word is found, forced and released. (Its
//! bodies do nothing on Linux, so there are no records to see.)

use std::path::Path;
use std::process::Command;
use tempfile::TempDir;
use tracetee_tests::{compile, library, skip, source};

const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/android/libcutils.so.0";

#[test]
fn the_real_libcutils_is_found_forced_and_given_back() {
    if !Path::new(LIBRARY).exists() {
        return skip("Debian's package android-libcutils is not installed");
    }
    let directory = TempDir::new().unwrap();
    let agent = library(directory.path());
    let program = directory.path().join("debian_libcutils");
    let include = format!("-I{}", directory.path().display());
    compile(&program, &[source("fixtures/debian_libcutils.c")], &[&include, "-ldl"]);
    for how in ["global", "local"] {
        let output = Command::new(&program).args([LIBRARY, how]).arg(&agent).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        let words: Vec<_> = text.split_whitespace().collect();
        // Before, while forced to view, after; and how it was found.
        assert_eq!(words[..3], ["0", "0x9", "0"], "{text}");
        let found_by = if how == "global" { "main program" } else { "libcutils.so.0" };
        assert!(text.contains(&format!("\"found_by\":\"{found_by}\"")), "{text}");
    }
}
