//! Derives a thread's activity from its stack in a dump.

use crate::cause::is_platform;
use crate::idle::is_idle;
use tracetee_trace::dump::{StackEntry, ThreadDump};

/// Work of a thread.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// No frame.
    Nothing,
    /// It waited for messages, or was about to continue from there.
    Idle,
    /// A call into another process: the function that calls.
    Binder(String),
    /// An access to the disk: the function.
    Io(String),
    /// A page fault.
    Swap,
    /// Another function.
    Function(String),
}

/// Java's and native functions that call another process.
const BINDER: [&str; 6] = [
    "android.os.BinderProxy.transactNative",
    "android.os.BinderProxy.transact",
    "android::IPCThreadState::talkWithDriver",
    "android::IPCThreadState::waitForResponse",
    "android::IPCThreadState::transact",
    "android::BpBinder::transact",
];
/// Java's functions that access files: beginnings.
const FILES: [&str; 8] = [
    "libcore.io.",
    "java.io.FileDescriptor.sync",
    "java.io.UnixFileSystem.",
    "sun.nio.ch.File",
    "sun.nio.fs.",
    "android.database.sqlite.SQLiteConnection.native",
    "android.app.SharedPreferencesImpl.awaitLoadedLocked",
    "android.app.QueuedWork.",
];
/// The C library's functions that access files.
const FILE_CALLS: [&str; 14] = [
    "fsync",
    "fdatasync",
    "pread64",
    "pwrite64",
    "pread",
    "pwrite",
    "write",
    "openat",
    "rename",
    "renameat",
    "unlinkat",
    "fstatat64",
    "sync_file_range",
    "fallocate64",
];
/// Functions of the kernel in which a thread waits: parts of their names.
const KERNEL_SWAP: [&str; 4] =
    ["do_swap_page", "swap_read", "lock_folio_or_retry", "lock_page_or_retry"];
const KERNEL_IO: [&str; 8] =
    ["folio_wait", "wait_on_page", "jbd2_", "f2fs_", "ext4_", "io_schedule", "blk_", "fsync"];
const KERNEL_BINDER: [&str; 2] = ["binder_wait_for_work", "binder_thread_read"];
/// Prefixes of functions through which a crash passes, in addition to those of the C library.
const ABORTS: [&str; 4] =
    ["android::base::", "art::Runtime::Abort", "art::LogMessage", "__android_log_assert"];

impl Shown {
    pub(super) fn of(thread: &ThreadDump) -> Self {
        let waits_in = |parts: &[&str]| parts.iter().any(|part| thread.waits_in.contains(part));
        let first = |is_native| thread.frames.iter().find(|frame| frame.is_native == is_native);
        let (java, native) = (first(false), first(true));
        if waits_in(&KERNEL_SWAP) {
            return Self::Swap;
        }
        let is_binder =
            |frame: &StackEntry| BINDER.iter().any(|known| is_function(&frame.function, known));
        // Native frames are above those of Java, which are their callers.
        if let Some(index) = thread.frames.iter().take(8).rposition(is_binder) {
            let caller =
                thread.frames.iter().skip(index + 1).find(|frame| !frame.function.is_empty());
            return Self::Binder(caller.map(|frame| frame.function.clone()).unwrap_or_default());
        }
        let java_name = java.map_or("", |frame| &*frame.function);
        let native_name = native.map_or("", |frame| frame.function.trim_start_matches('_'));
        let is_file = FILES.iter().any(|begin| java_name.starts_with(begin));
        let is_file_call = FILE_CALLS.contains(&native_name);
        if is_file || is_file_call || waits_in(&KERNEL_IO) {
            return Self::Io(function(thread));
        }
        if thread.frames.is_empty() {
            return if waits_in(&KERNEL_BINDER) {
                Self::Binder(String::new())
            } else {
                Self::Nothing
            };
        }
        if is_idle(java_name) || (java.is_none() && is_idle(native_name)) {
            return Self::Idle;
        }
        Self::Function(function(thread))
    }
}

/// True for `android::BpBinder::transact(unsigned int, …)`.
fn is_function(name: &str, known: &str) -> bool {
    name.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('('))
}

/// Returns the most informative function of a thread's stack: the app's innermost, or else the innermost.
pub(super) fn function(thread: &ThreadDump) -> String {
    let is_known = |frame: &&StackEntry| !frame.function.is_empty();
    let is_app = |frame: &&StackEntry| !frame.is_native && !is_platform(&frame.function);
    let frames = || thread.frames.iter().filter(is_known);
    frames()
        .find(is_app)
        .or_else(|| frames().next())
        .map(|frame| frame.function.clone())
        .unwrap_or_default()
}

/// Returns the innermost function of a thread that has a name.
pub(super) fn innermost(thread: &ThreadDump) -> String {
    let mut names = thread.frames.iter().map(|frame| &frame.function);
    names.find(|name| !name.is_empty()).cloned().unwrap_or_default()
}

/// Returns the function in which a thread was, without its package: `FileDescriptor.sync`, `fsync`.
pub(super) fn short(function: &str) -> &str {
    let end = function.find('(').unwrap_or(function.len());
    let function = function.get(..end).unwrap_or(function);
    let dot = function.match_indices('.').rev().nth(1).map_or(0, |(at, _)| at + 1);
    function.get(dot..).unwrap_or(function)
}

/// Returns the function in which native code crashed: the caller of the C library, which aborts and copies; without symbols, its library.
pub(super) fn crashed_in(thread: &ThreadDump) -> String {
    let is_passed = |frame: &StackEntry| {
        frame.location == "libc.so" || ABORTS.iter().any(|begin| frame.function.starts_with(begin))
    };
    let found = thread.frames.iter().find(|frame| !is_passed(frame)).or(thread.frames.first());
    let named = |frame: &StackEntry| {
        if frame.function.is_empty() { &frame.location } else { &frame.function }.clone()
    };
    found.map(named).unwrap_or_default()
}
