//! The four Android libraries that `tests/cross/run` has built: what an app's linker will see.

use std::process::Command;
use tracetee_tests::{cache, skip};

/// And what each may weigh, bytes: the README's table, and some room. Growth is to be noticed and argued.
const ABIS: [(&str, u64); 4] =
    [("arm64-v8a", 1_300_000), ("armeabi-v7a", 940_000), ("x86_64", 1_430_000), ("x86", 1_550_000)];

#[test]
fn each_android_library_is_aligned_closed_and_needs_only_the_systems_own() {
    let directory = cache("cross/out");
    for (abi, budget_bytes) in ABIS {
        let path = directory.join(abi).join("libtracetee.so");
        if !path.exists() {
            return skip("tests/cross/run has not built the Android libraries");
        }
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
        let allowed = ["libc.so", "libdl.so", "libm.so", "liblog.so"];
        assert!(needed.iter().all(|library| allowed.contains(library)), "{abi} {needed:?}");
        assert!(needed.contains(&"libc.so"), "{abi}");
        assert!(!dynamic.contains("TEXTREL"), "{abi}");
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
