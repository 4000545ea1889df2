//! The bench stands in for libcutils: it exports what libraries look up in it.

fn main() {
    for symbol in ["atrace_enabled_tags", "atrace_marker_fd", "atrace_begin_body"] {
        println!("cargo::rustc-link-arg-benches=-Wl,--export-dynamic-symbol={symbol}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
