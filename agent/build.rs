//! Linker settings of the cdylib.

fn main() {
    let is_android = std::env::var_os("CARGO_CFG_TARGET_OS").is_some_and(|os| os == "android");
    let own: &[&str] = if is_android {
        // Linkers up to API 22 warn of GNU hash tables, and of `nodelete`: `src/android/pinned.rs` does without.
        &["-Wl,--hash-style=sysv"]
    } else {
        // Proxies may be called after a dlclose; the code must stay.
        &["-Wl,-z,nodelete"]
    };
    // Android devices may have 16 KiB pages.
    for argument in own.iter().chain(&["-Wl,-soname,libtracetee.so", "-Wl,-z,max-page-size=16384"])
    {
        println!("cargo::rustc-cdylib-link-arg={argument}");
    }
    // The bench stands in for libcutils.
    for symbol in ["atrace_enabled_tags", "atrace_marker_fd"] {
        println!("cargo::rustc-link-arg-benches=-Wl,--export-dynamic-symbol={symbol}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
