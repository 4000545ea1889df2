//! Descriptors that are trace markers: libcutils' own, and files that other code opened (Flutter's engine, WebView and Unity
//! open `trace_marker` themselves).
//!
//! [`is_trace_marker`] runs on the app's threads, but only for a buffer that is shaped like a
//! record and goes to another descriptor than libcutils': one fstat. A descriptor is never
//! remembered (its number may be reused at any time), only the identity of marker files is.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use tracetee_recorder::errno;

/// Paths of the kernel's marker.
const PATHS: [&CStr; 2] =
    [c"/sys/kernel/tracing/trace_marker", c"/sys/kernel/debug/tracing/trace_marker"];
/// `f_type` of tracefs and debugfs.
const TRACEFS_MAGIC: u64 = 0x7472_6163;
const DEBUGFS_MAGIC: u64 = 0x6462_6720;

/// S_IFMT and S_IFREG, whose type in the libc crate depends on the target.
const FILE_TYPE: u32 = 0o170_000;
const REGULAR_FILE: u32 = 0o100_000;

/// Device and inode of marker files seen so far; the main one, its debugfs twin, and instances.
static KNOWN: [[AtomicU64; 2]; 8] = [const { [const { AtomicU64::new(0) }; 2] }; 8];
static KNOWN_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Learns the identity of the system's marker. Called at the start of a capture.
pub fn learn() {
    for path in PATHS {
        // SAFETY: an all-zero stat is a valid value of a plain C structure.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: a C string and a place to write to.
        if unsafe { libc::stat(path.as_ptr(), &raw mut stat) } == 0 {
            remember(identity(&stat));
        }
    }
}

/// True if `fd` is open on a trace marker. Keeps errno.
#[cold]
pub(crate) fn is_trace_marker(fd: i32) -> bool {
    if fd < 0 {
        return false;
    }
    let saved = errno::Saved::now();
    let answer = check(fd);
    saved.restore();
    answer
}

fn check(fd: i32) -> bool {
    // SAFETY: an all-zero stat is a valid value of a plain C structure.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: any descriptor number may be asked about; the kernel writes to our stat.
    if unsafe { libc::fstat(fd, &raw mut stat) } != 0 || stat.st_mode & FILE_TYPE != REGULAR_FILE {
        return false;
    }
    let identity = identity(&stat);
    if is_known(identity) {
        return true;
    }
    // Another instance's marker, or one that could not be looked up by path at the start.
    // SAFETY: an all-zero statfs is a valid value of a plain C structure.
    let mut filesystem: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: as for fstat.
    if unsafe { libc::fstatfs(fd, &raw mut filesystem) } != 0 {
        return false;
    }
    #[allow(clippy::unnecessary_cast, reason = "f_type is 32 bits, signed or not, elsewhere")]
    #[allow(clippy::cast_sign_loss, reason = "f_type is a bit pattern")]
    let kind = filesystem.f_type as u64 & 0xffff_ffff;
    if !matches!(kind, TRACEFS_MAGIC | DEBUGFS_MAGIC) || !is_named_trace_marker(fd) {
        return false;
    }
    remember(identity);
    true
}

#[allow(clippy::unnecessary_cast, reason = "the widths of st_dev and st_ino depend on the target")]
fn identity(stat: &libc::stat) -> [u64; 2] {
    [stat.st_dev as u64, stat.st_ino as u64]
}

fn is_known([device, inode]: [u64; 2]) -> bool {
    // ORDERING: Acquire, pairs with the Release in `remember`: entries below the count are set.
    let count = KNOWN_COUNT.load(Ordering::Acquire).min(KNOWN.len());
    KNOWN.iter().take(count).any(|entry| {
        let [known_device, known_inode] = entry;
        known_device.load(Ordering::Relaxed) == device
            && known_inode.load(Ordering::Relaxed) == inode
    })
}

/// Adds an identity. Two threads may add the same one at once: the table then contains it twice. When the table is full,
/// further instances are examined each time.
fn remember(identity: [u64; 2]) {
    if is_known(identity) {
        return;
    }
    // ORDERING: Relaxed load, Release on success: pairs with the Acquire in `is_known`. The entry
    // is written before the count that shows it; of two writers the later one overwrites the same
    // entry and one of them fails, which costs a second look, no wrong answer: both identities
    // are markers, and a mixed pair matches no file.
    let count = KNOWN_COUNT.load(Ordering::Relaxed);
    let Some([device, inode]) = KNOWN.get(count) else { return };
    let [new_device, new_inode] = identity;
    device.store(new_device, Ordering::Relaxed);
    inode.store(new_inode, Ordering::Relaxed);
    let _ = KNOWN_COUNT.compare_exchange(count, count + 1, Ordering::Release, Ordering::Relaxed);
}

/// True if the descriptor's path ends in `/trace_marker`.
fn is_named_trace_marker(fd: i32) -> bool {
    let mut path = *b"/proc/self/fd/\0\0\0\0\0\0\0\0\0\0\0\0";
    let mut digits = [0u8; 10];
    let mut rest = fd;
    let mut len = 0;
    for digit in &mut digits {
        *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
        len += 1;
        if rest == 0 {
            break;
        }
    }
    for (to, from) in path.iter_mut().skip(14).zip(digits.iter().take(len).rev()) {
        *to = *from;
    }
    let mut target = [0u8; 256];
    // SAFETY: a NUL-terminated path, and a buffer of the length given.
    let got =
        unsafe { libc::readlink(path.as_ptr().cast(), target.as_mut_ptr().cast(), target.len()) };
    let target = usize::try_from(got).ok().and_then(|got| target.get(..got)).unwrap_or(&[]);
    target.ends_with(b"/trace_marker")
}
