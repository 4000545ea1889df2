//! The code that a record runs through cannot panic: by the disassembly of the library in the profile that is
//! shipped, no function of the panic machinery or the allocator is reached from the proxies, from the markers or from what a thread's
//! end calls.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use tracetee_tests::panics::library_that_panics;
use tracetee_tests::tools::{on_path, tool};

/// A part of the name of each function from which calls are followed, and the number of functions with it at least.
const ROOTS: [(&str, usize); 13] = [
    ("write_proxy", 4),
    ("write_chk_proxy", 4),
    ("prctl_proxy", 4),
    ("setname_proxy", 4),
    ("fast_path", 4),
    ("thread_ended", 1),
    ("tracetee_begin_section", 1),
    ("tracetee_end_section", 1),
    ("tracetee_begin_track", 1),
    ("tracetee_counter", 1),
    ("tracetee_complete", 1),
    ("tracetee_track_instant", 1),
    ("tracetee_is_recording", 1),
];
/// Parts of the names of functions that only a panic calls, and of the allocator.
const FORBIDDEN: [&str; 8] = [
    "panicking",
    "panic_fmt",
    "rust_panic",
    "unwrap_failed",
    "expect_failed",
    "slice_index",
    "rust_alloc",
    "alloc_error",
];

#[derive(Debug, Default)]
struct Function {
    name: String,
    /// Addresses that its direct calls and jumps lead to.
    targets: Vec<u64>,
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

/// The functions of the library by address.
fn disassemble(library: &Path) -> BTreeMap<u64, Function> {
    let output = Command::new("objdump")
        .args(["--disassemble", "--no-show-raw-insn", "--section=.text"])
        .arg(library)
        .output()
        .unwrap();
    assert!(output.status.success());
    let mut functions: BTreeMap<u64, Function> = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let named = line.strip_suffix(">:").and_then(|line| line.split_once(" <"));
        if let Some((address, name)) = named {
            let function = Function { name: name.to_owned(), targets: Vec::new() };
            functions.insert(hex(address).unwrap(), function);
        } else if let Some((_, instruction)) = line.split_once(":\t")
            && let mut words = instruction.split_ascii_whitespace()
            && let Some(mnemonic) = words.next()
            && (mnemonic.starts_with("call") || mnemonic.starts_with('j'))
            && let Some(target) = words.next().and_then(hex)
        {
            functions.last_entry().unwrap().get_mut().targets.push(target);
        }
    }
    functions
}

/// The function that holds an address.
fn holder(functions: &BTreeMap<u64, Function>, address: u64) -> u64 {
    functions.range(..=address).next_back().map_or(0, |(&start, _)| start)
}

/// The functions that `roots` reach and that call the panic machinery, each with the name of the function that it calls.
fn panics(functions: &BTreeMap<u64, Function>, roots: &[u64]) -> BTreeSet<(String, String)> {
    let (mut reached, mut rest) = (roots.iter().copied().collect::<BTreeSet<_>>(), roots.to_vec());
    let mut panics = BTreeSet::new();
    while let Some(address) = rest.pop() {
        let function = &functions[&address];
        for &target in &function.targets {
            let start = holder(functions, target);
            let Some(called) = functions.get(&start) else { continue };
            if FORBIDDEN.iter().any(|part| called.name.contains(part)) {
                panics.insert((function.name.clone(), called.name.clone()));
            } else if reached.insert(start) {
                rest.push(start);
            }
        }
    }
    panics
}

#[test]
fn no_record_reaches_the_panic_machinery_or_the_allocator() {
    let objdump = on_path(&["objdump"]);
    if !cfg!(target_arch = "x86_64") || tool(objdump, "objdump").is_none() {
        return;
    }
    let functions = disassemble(library_that_panics());
    let named = |part: &str| -> Vec<u64> {
        functions
            .iter()
            .filter(|(_, function)| function.name.contains(part))
            .map(|(&address, _)| address)
            .collect()
    };
    // The method sees panics where there are some.
    assert!(
        !panics(&functions, &named("tracetee_last_error")).is_empty(),
        "calls are not followed"
    );

    let mut roots = Vec::new();
    for (part, least) in ROOTS {
        let found = named(part);
        assert!(found.len() >= least, "{part}: {} functions", found.len());
        roots.extend(found);
    }
    assert_eq!(panics(&functions, &roots), BTreeSet::new());
}
