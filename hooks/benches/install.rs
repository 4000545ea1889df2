//! Measures hooking with 300 loaded libraries, each with 2,000 relative relocations and 41 imports: the
//! installation, a refresh, and the naive way, a full scan.
//!
//! `cargo bench -p tracetee-hooks --bench install`. Prints the number of mprotect calls of an installation.

#![allow(missing_docs, reason = "a program")]
#![allow(clippy::print_stdout, reason = "a program")]
#![allow(clippy::disallowed_methods, reason = "a bench, which runs where it was built")]
#![allow(clippy::unwrap_used, reason = "a bench that cannot run may stop")]

use divan::Bencher;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;
use tracetee_hooks::{Hook, Later, Outcome, Proxy, Registry, Report};

const LIBRARIES: usize = 300;

type Write = unsafe extern "C" fn(i32, *const u8, usize) -> isize;

static PREVIOUS: AtomicUsize = AtomicUsize::new(0);
// SAFETY: `pass_on` has write's signature and passes on to PREVIOUS.
static PROXIES: [Proxy; 1] = [unsafe { Proxy::new(pass_on as Write as *const (), &PREVIOUS) }];
static HOOKS: [Hook; 1] = [Hook { symbol: "write", proxies: &PROXIES }];

unsafe extern "C" fn pass_on(fd: i32, buffer: *const u8, count: usize) -> isize {
    // SAFETY: what the registry put there: write.
    let previous: Write = unsafe { std::mem::transmute(PREVIOUS.load(Ordering::Relaxed)) };
    // SAFETY: the caller's own arguments.
    unsafe { previous(fd, buffer, count) }
}

fn main() {
    let report = install().1;
    println!(
        "{} libraries, {} slots hooked, {} mprotect calls",
        report.modules.len(),
        report.count(Outcome::Hooked),
        report.protect_calls
    );
    divan::main();
}

fn install() -> (Registry, Report) {
    load_all();
    Registry::install(&HOOKS, Box::new(|_| true), Later::OnRefresh).unwrap()
}

/// Compiles the library once and loads 300 copies.
fn load_all() -> &'static Path {
    static DIRECTORY: OnceLock<TempDir> = OnceLock::new();
    DIRECTORY
        .get_or_init(|| {
            let directory = TempDir::new().unwrap();
            let original = directory.path().join("original.so");
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/library.c");
            let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
            let status = Command::new(compiler)
                .args(["-w", "-shared", "-fPIC", "-Wl,-z,now,-z,relro", "-o"])
                .args([&original, &source])
                .status();
            assert!(status.unwrap().success());
            for number in 0..LIBRARIES {
                load(&copy(directory.path(), number));
            }
            directory
        })
        .path()
}

fn copy(directory: &Path, number: usize) -> PathBuf {
    let path = directory.join(format!("lib{number}.so"));
    std::fs::copy(directory.join("original.so"), &path).unwrap();
    path
}

fn load(path: &Path) -> *mut libc::c_void {
    let name = CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: a library of ours without constructors.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
    assert!(!handle.is_null());
    handle
}

#[divan::bench(sample_count = 50, sample_size = 1)]
fn install_over_300_libraries(bencher: Bencher<'_, '_>) {
    bencher.bench(install);
}

#[divan::bench(sample_count = 50, sample_size = 1)]
fn refresh_when_nothing_was_loaded(bencher: Bencher<'_, '_>) {
    let (registry, _) = install();
    bencher.bench(|| registry.refresh().unwrap());
}

#[divan::bench(sample_count = 50, sample_size = 1)]
fn refresh_after_one_more_library(bencher: Bencher<'_, '_>) {
    let (registry, _) = install();
    let path = copy(load_all(), LIBRARIES);
    bencher
        .with_inputs(|| Loaded(load(&path)))
        .bench_refs(|_| assert_eq!(registry.refresh().unwrap().count(Outcome::Hooked), 2));
}

/// The naive way: restores all slots, scans everything and patches it again.
#[divan::bench(sample_count = 50, sample_size = 1)]
fn full_rescan_after_one_more_library(bencher: Bencher<'_, '_>) {
    let path = copy(load_all(), LIBRARIES);
    bencher.with_inputs(|| (install().0, Loaded(load(&path)))).bench_refs(|(registry, _)| {
        registry.uninstall().unwrap();
        *registry = install().0;
    });
}

struct Loaded(*mut libc::c_void);

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: the handle of `load`.
        unsafe { libc::dlclose(self.0) };
    }
}
