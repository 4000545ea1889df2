//! Linker settings of the cdylib.

fn main() {
    for argument in [
        // Proxies may be called after a dlclose; the code must stay.
        "-Wl,-z,nodelete",
        "-Wl,-soname,libtracetee.so",
        // Android devices with 16 KiB pages.
        "-Wl,-z,max-page-size=16384",
    ] {
        println!("cargo::rustc-cdylib-link-arg={argument}");
    }
    // The bench stands in for libcutils.
    for symbol in ["atrace_enabled_tags", "atrace_marker_fd"] {
        println!("cargo::rustc-link-arg-benches=-Wl,--export-dynamic-symbol={symbol}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
