//! A panic while another thread is inside a call that hooks. In its own process, in which the agent is off afterwards.

#![allow(missing_docs, reason = "a test")]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::ffi::CString;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;
use tracetee_hooks::{
    Hook, Later, Outcome, Proxy, Registry, give_back_after_panic, left_after_panic,
};
use tracetee_os::guard;

static PREVIOUS: AtomicUsize = AtomicUsize::new(0);
type Function = unsafe extern "C" fn(*const libc::c_char) -> *mut libc::c_char;
// SAFETY: `proxy` has the signature of `getenv` and passes on to `PREVIOUS`.
static PROXIES: [Proxy; 1] = [unsafe { Proxy::new(proxy as Function as *const (), &PREVIOUS) }];
static HOOKS: [Hook; 1] = [Hook { symbol: "getenv", proxies: &PROXIES }];

unsafe extern "C" fn proxy(name: *const libc::c_char) -> *mut libc::c_char {
    // SAFETY: what the registry put there: `getenv`.
    let previous =
        unsafe { std::mem::transmute::<usize, Function>(PREVIOUS.load(Ordering::Relaxed)) };
    // SAFETY: the caller's own argument.
    unsafe { previous(name) }
}

/// Loads a library with a slot of `getenv`.
#[allow(clippy::disallowed_methods, reason = "runs where it was built")]
fn load(directory: &Path, name: &str) {
    let path = directory.join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/library.c");
    let status = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
        .args(["-w", "-shared", "-fPIC", "-Wl,-z,now,-z,relro", "-o"])
        .args([&path, &source])
        .status();
    assert!(status.unwrap().success());
    let name = CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: a library of ours without constructors.
    assert!(!unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) }.is_null());
}

#[test]
fn a_call_that_has_begun_before_a_panic_leaves_no_slot_hooked_after_it() {
    let directory = TempDir::new().unwrap();
    load(directory.path(), "libearly.so");
    let accept = || Box::new(|path: &str| path.ends_with("ly.so") || path.ends_with("late.so"));
    let (registry, report) = Registry::install(&HOOKS, accept(), Later::OnRefresh).unwrap();
    assert_eq!(report.count(Outcome::Hooked), 1);
    assert_eq!(left_after_panic(), None);

    // The other thread is inside its guard, and stays there.
    guard::run(|| {
        let panicked = std::thread::spawn(|| guard::run(|| panic!("planted")));
        assert!(panicked.join().unwrap().is_err());
        assert!(guard::is_broken());
        give_back_after_panic(&HOOKS).unwrap();
        assert_eq!(left_after_panic(), Some(0));

        // It continues: one library is new, and the other looks loaded again, as its slot has the linker's value.
        load(directory.path(), "liblate.so");
        let report = registry.refresh().unwrap();
        assert_eq!(report.count(Outcome::Hooked), 0);
        assert_eq!(report.count(Outcome::Restored), 2);
        let (_, report) = Registry::install(&HOOKS, accept(), Later::OnRefresh).unwrap();
        assert_eq!(report.count(Outcome::Hooked), 0);
        assert_eq!(report.count(Outcome::Restored), 2);
    })
    .unwrap();

    // The number is that of the last check: nothing was left to do.
    give_back_after_panic(&HOOKS).unwrap();
    assert_eq!(left_after_panic(), Some(0));
}
