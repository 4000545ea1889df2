//! Linker settings of the cdylib.

fn main() {
    let is_android = std::env::var_os("CARGO_CFG_TARGET_OS").is_some_and(|os| os == "android");
    // Linkers up to API 22 warn of GNU hash tables.
    let own: &[&str] = if is_android { &["-Wl,--hash-style=sysv"] } else { &[] };
    // Proxies may be called after a dlclose: the code must stay. Linkers up to API 22 ignore `nodelete`, with a warning in the
    // app's log: see `src/android/pinned.rs`. Android devices may have 16 KiB pages.
    let all = ["-Wl,-z,nodelete", "-Wl,-soname,libtracetee.so", "-Wl,-z,max-page-size=16384"];
    for argument in own.iter().chain(&all) {
        println!("cargo::rustc-cdylib-link-arg={argument}");
    }
    // The bench stands in for libcutils.
    for symbol in ["atrace_enabled_tags", "atrace_marker_fd"] {
        println!("cargo::rustc-link-arg-benches=-Wl,--export-dynamic-symbol={symbol}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
