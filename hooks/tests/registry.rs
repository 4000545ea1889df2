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
hook!(hooks_getenv, "getenv");
hook!(hooks_chdir, "chdir");
hook!(hooks_now, "local_now");
hook!(hooks_lazy, "local_lazy");
hook!(hooks_twice, "local_twice");
hook!(hooks_late, "local_late");

#[allow(clippy::disallowed_methods, reason = "runs where it was built")]
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

/// Compiles `text` to a library; `arguments` come after it.
#[allow(clippy::disallowed_methods, reason = "runs where it was built")]
fn library_of(directory: &Path, name: &str, text: &str, arguments: &[&str]) -> PathBuf {
    let (path, source) = (directory.join(name), directory.join(name).with_extension("c"));
    std::fs::write(&source, text).unwrap();
    let status = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
        .args(["-w", "-shared", "-fPIC", "-Wl,-rpath,$ORIGIN", "-o"])
        .args([&path, &source])
        .arg(format!("-L{}", directory.display()))
        .args(arguments)
        .status();
    assert!(status.unwrap().success());
    path
}

/// A library with a function that only its user depends on, and the user, which calls it through
/// its PLT. Both are out of the global scope.
fn user_of(directory: &Path, symbol: &str) -> PathBuf {
    let definition = format!("long {symbol}(long a) {{ return a + 1; }}");
    // Its own name: the linker takes a loaded library of the same name instead.
    library_of(directory, &format!("lib{symbol}.so"), &definition, &[]);
    let use_it = format!("long {symbol}(long); long use(long a) {{ return {symbol}(a); }}");
    library_of(directory, "libuser.so", &use_it, &[&format!("-l{symbol}"), "-Wl,-z,lazy"])
}

/// Calls the user's function.
fn call(handle: *mut libc::c_void, argument: usize) -> usize {
    // SAFETY: an open handle and a C string.
    let function = unsafe { libc::dlsym(handle, c"use".as_ptr()) };
    // SAFETY: the library's `long use(long)`.
    let function: extern "C" fn(usize) -> usize = unsafe { std::mem::transmute(function) };
    function(argument)
}

fn load(path: &Path) -> *mut libc::c_void {
    load_as(path, libc::RTLD_NOW)
}

fn load_as(path: &Path, flags: libc::c_int) -> *mut libc::c_void {
    let name = CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: a library of ours without constructors.
    let handle = unsafe { libc::dlopen(name.as_ptr(), flags) };
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
fn a_library_that_the_filter_refuses_is_left_alone_and_reported() {
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
        // SAFETY: our own handle, no longer used.
        unsafe { libc::dlclose(handle) };
        handle = load(&path);
        let report = registry.refresh().unwrap();
        assert_eq!(report.count(Outcome::Hooked), 1);
        same_place += u32::from(report.slots().next().unwrap().1.address == address);
    }
    assert!(same_place > 0, "the loader never reused the place");
}

#[test]
fn a_symbol_outside_the_global_scope_is_hooked_where_its_callers_bind_it() {
    for (hooks, symbol, flags) in [
        (&hooks_now::HOOKS, "local_now", libc::RTLD_NOW),
        (&hooks_lazy::HOOKS, "local_lazy", libc::RTLD_LAZY),
    ] {
        let directory = TempDir::new().unwrap();
        let user = user_of(directory.path(), symbol);
        let handle = load_as(&user, flags);
        let (registry, report) = Registry::install(hooks, only(&user), Later::OnRefresh).unwrap();
        assert_eq!(report.count(Outcome::Hooked), 1, "{symbol}");
        assert_eq!(call(handle, 41), 42);
        drop(registry);
        assert_eq!(call(handle, 42), 43);
    }
}

#[test]
fn a_slot_whose_definition_is_not_known_before_its_first_call_is_left_alone_and_reported() {
    let directory = TempDir::new().unwrap();
    let user = user_of(directory.path(), "local_twice");
    let other = "long local_twice(long a) { return a + 2; }";
    let handle = load_as(&user, libc::RTLD_LAZY);
    load(&library_of(directory.path(), "libother.so", other, &[]));
    let hooks = &hooks_twice::HOOKS;
    let (_registry, report) = Registry::install(hooks, only(&user), Later::OnRefresh).unwrap();
    assert_eq!(report.count(Outcome::NoDefinition), 1);
    assert_eq!(call(handle, 41), 42);
}

#[test]
fn a_symbol_that_nobody_defines_yet_is_hooked_when_a_library_brings_it() {
    let directory = TempDir::new().unwrap();
    let user = user_of(directory.path(), "local_late");
    let path = user.to_str().unwrap().to_owned();
    let hooks = [hooks_late::HOOKS[0], hooks_getenv::HOOKS[0]];
    let filter: Filter = Box::new(move |candidate| candidate == path);
    let (registry, report) = Registry::install(&hooks, filter, Later::OnRefresh).unwrap();
    assert_eq!(report.slots().count(), 0);
    let handle = load(&user);
    assert_eq!(registry.refresh().unwrap().count(Outcome::Hooked), 1);
    assert_eq!(call(handle, 41), 42);
    // The registry's own report has it too, whatever call has found it.
    let report = registry.report();
    let of_user = report.modules.iter().find(|module| module.path == user.to_str().unwrap());
    assert_eq!(of_user.unwrap().slots.len(), 1);
}

#[test]
fn a_symbol_that_is_nowhere_is_an_error_with_the_places_searched() {
    hook!(hooks_nowhere, "defined_nowhere");
    let failed = Registry::install(&hooks_nowhere::HOOKS, Box::new(|_| true), Later::OnRefresh);
    let text = failed.unwrap_err().to_string();
    assert!(text.contains("defined_nowhere") && text.contains("symbol tables"), "{text}");
}

#[test]
fn a_pointer_into_a_function_is_no_slot_of_it() {
    let directory = TempDir::new().unwrap();
    let text = "int chdir(const char *);
        int (*whole)(const char *) = chdir; char *part = (char *)chdir + 4;
        long use(long a) { return whole ? part - (char *)chdir : 0; }";
    let path = library_of(directory.path(), "libpart.so", text, &["-Wl,-z,now"]);
    let handle = load(&path);
    let (_registry, report) =
        Registry::install(&hooks_chdir::HOOKS, only(&path), Later::OnRefresh).unwrap();
    // SAFETY: an open handle and a C string.
    let whole = unsafe { libc::dlsym(handle, c"whole".as_ptr()) } as usize;
    // SAFETY: as above.
    let part = unsafe { libc::dlsym(handle, c"part".as_ptr()) } as usize;
    let slots: Vec<_> = report.slots().map(|(_, slot)| slot.address).collect();
    assert!(slots.contains(&whole) && !slots.contains(&part), "{slots:x?} {whole:x} {part:x}");
    assert_eq!(report.count(Outcome::Hooked), slots.len());
}
