//! The registry on real libraries, in this process. Each test has a symbol of its own, as hooks
//! are process-wide.

#![allow(missing_docs, reason = "tests")]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;
use tracetee_hooks::{Filter, Hook, Later, Outcome, Proxy, Registry, Skipped};

/// A proxy that only passes on: jumping on keeps every signature.
macro_rules! hook {
    ($name:ident, $symbol:literal) => {
        mod $name {
            use super::*;
            static PREVIOUS: AtomicUsize = AtomicUsize::new(0);
            type Function = unsafe extern "C" fn(usize, usize, usize, usize) -> usize;
            static PROXIES: [Proxy; 1] = [
                // SAFETY: passes four words on, which all that these symbols take fit in.
                unsafe { Proxy::new(proxy as Function as *const (), &PREVIOUS) },
            ];
            pub(super) static HOOKS: [Hook; 1] = [Hook { symbol: $symbol, proxies: &PROXIES }];
            unsafe extern "C" fn proxy(a: usize, b: usize, c: usize, d: usize) -> usize {
                let previous = PREVIOUS.load(Ordering::Relaxed);
                // SAFETY: what the registry put there: the symbol's own definition.
                let previous = unsafe { std::mem::transmute::<usize, Function>(previous) };
                // SAFETY: the caller's own arguments.
                unsafe { previous(a, b, c, d) }
            }
        }
    };
}

hook!(hooks_lseek, "lseek");
hook!(hooks_fsync, "fsync");
hook!(hooks_dup, "dup");
hook!(hooks_pipe, "pipe");

fn library(directory: &Path, name: &str) -> PathBuf {
    let path = directory.join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/library.c");
    let status = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
        .args(["-w", "-shared", "-fPIC", "-Wl,-z,now,-z,relro", "-o"])
        .args([&path, &source])
        .status();
    assert!(status.unwrap().success());
    path
}

fn load(path: &Path) -> *mut libc::c_void {
    let name = CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: a library of ours without constructors.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
    assert!(!handle.is_null());
    handle
}

fn only(path: &Path) -> Filter {
    let path = path.to_str().unwrap().to_owned();
    Box::new(move |candidate| candidate == path)
}

/// The library's mappings with their protections.
fn protections(path: &Path) -> Vec<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let path = path.to_str().unwrap();
    maps.lines().filter(|line| line.ends_with(path)).map(str::to_owned).collect()
}

#[test]
fn protections_are_the_same_after_hooking_and_after_giving_back() {
    let directory = TempDir::new().unwrap();
    let path = library(directory.path(), "libprotected.so");
    load(&path);
    let before = protections(&path);
    assert!(before.iter().any(|line| line.contains(" r--p ")), "RELRO");
    let (registry, report) =
        Registry::install(&hooks_lseek::HOOKS, only(&path), Later::OnRefresh).unwrap();
    assert_eq!(report.count(Outcome::Hooked), 1);
    assert_eq!(report.protect_calls, 2, "one page opened and closed");
    assert_eq!(protections(&path), before);
    assert_eq!(registry.uninstall().unwrap().count(Outcome::Restored), 1);
    assert_eq!(protections(&path), before);
}

#[test]
fn what_the_filter_refuses_is_left_alone_and_said() {
    let directory = TempDir::new().unwrap();
    let (wanted, refused) =
        (library(directory.path(), "libwanted.so"), library(directory.path(), "librefused.so"));
    load(&wanted);
    load(&refused);
    let (registry, report) =
        Registry::install(&hooks_fsync::HOOKS, only(&wanted), Later::OnRefresh).unwrap();
    let module = |path: &Path| {
        report.modules.iter().find(|module| module.path == path.to_str().unwrap()).unwrap()
    };
    assert_eq!(module(&wanted).slots.len(), 1);
    assert_eq!(module(&refused).skipped, Some(Skipped::Filtered));
    let hooked: usize = registry.hooked().iter().map(|module| module.slots.len()).sum();
    assert_eq!(hooked, 1);
}

#[test]
fn installing_and_refreshing_again_change_nothing_and_dropping_gives_back() {
    let directory = TempDir::new().unwrap();
    let path = library(directory.path(), "libtwice.so");
    load(&path);
    let hooks = &hooks_dup::HOOKS;
    let (first, report) = Registry::install(hooks, only(&path), Later::OnRefresh).unwrap();
    let old = report.slots().next().unwrap().1.old;
    assert_eq!(first.refresh().unwrap().modules.len(), 0);
    // A second owner of the same hooks finds them in place.
    let (second, report) = Registry::install(hooks, only(&path), Later::OnRefresh).unwrap();
    assert_eq!((report.count(Outcome::Hooked), report.protect_calls), (1, 0));
    drop(second);
    assert_eq!(first.hooked().iter().map(|module| module.slots.len()).sum::<usize>(), 1);
    drop(first);
    let (_, report) = Registry::install(hooks, only(&path), Later::OnRefresh).unwrap();
    assert_eq!(report.slots().next().unwrap().1.old, old, "the slot had its old value again");
}

#[test]
#[allow(clippy::disallowed_methods, reason = "unloads a library of the test's own")]
fn a_library_that_is_loaded_again_in_the_same_place_is_hooked_again() {
    let directory = TempDir::new().unwrap();
    let path = library(directory.path(), "libagain.so");
    let handle = load(&path);
    let (registry, report) =
        Registry::install(&hooks_pipe::HOOKS, only(&path), Later::OnRefresh).unwrap();
    let address = report.slots().next().unwrap().1.address;
    let mut same_place = 0;
    let mut handle = handle;
    for _ in 0..20 {
        // SAFETY: our own handle, not used any more.
        unsafe { libc::dlclose(handle) };
        handle = load(&path);
        let report = registry.refresh().unwrap();
        assert_eq!(report.count(Outcome::Hooked), 1);
        same_place += u32::from(report.slots().next().unwrap().1.address == address);
    }
    assert!(same_place > 0, "the loader never reused the place");
}
