//! Your own instrumentation: sections, counters and instants, as the records that atrace writes.
//!
//! Records go straight into the recorder, so they work where libcutils is absent (plain Linux) and
//! whatever tags are on. While a system trace wants the app's records, they go to the kernel, too.
//! While nothing is recorded, a call is a load and a branch.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use tracetee_os::guard;
use tracetee_recorder::layout::Loss;
use tracetee_recorder::packed::Packed;
use tracetee_recorder::record::Kind;
use tracetee_recorder::rich::Rich;
use tracetee_recorder::{session, thread};
use tracetee_tee::{packed, tag_words};

/// Bytes of a name that are kept, as libcutils does.
pub(crate) const MAX_NAME_BYTES: usize = 1000;

/// Hooks are in place, the tags are forced, and Java's copy of them is refreshed.
static IS_READY: AtomicBool = AtomicBool::new(false);

/// Returns true while a capture is recording, so that a name is worth computing.
///
/// It is `true` from when hooks are installed and tags are forced (Java's copy of them too) until just before the tags are
/// restored, and `false` while the agent measures the cost of a record. After the agent's installation it is also `true`
/// until the agent has read its configuration, for your own sections.
#[inline]
#[must_use]
pub fn is_recording() -> bool {
    // ORDERING: Acquire, pairs with the Release in `set_ready`: a thread that sees it sees the forced tags.
    IS_READY.load(Ordering::Acquire) && session::current() != 0
}

/// Keeps copies of flags for Kotlin; called with each new value.
#[cfg(feature = "jni")]
static ON_CHANGE: std::sync::OnceLock<fn(&'static CStr, bool)> = std::sync::OnceLock::new();

/// Registers `call` for each new value of a flag, by the name of its field in Kotlin, on the thread that sets it: `recording`,
/// under the capture's lock, `coroutines` and `ledger`.
#[cfg(feature = "jni")]
pub(crate) fn on_change(call: fn(&'static CStr, bool)) {
    let _ = ON_CHANGE.set(call);
}

/// Reports the value of a flag of Kotlin.
pub(crate) fn changed(name: &'static CStr, value: bool) {
    #[cfg(feature = "jni")]
    if let Some(call) = ON_CHANGE.get() {
        call(name, value);
    }
    #[cfg(not(feature = "jni"))]
    let _ = (name, value);
}

/// Sets whether the running capture is complete. Called under the capture's lock.
pub(crate) fn set_ready(is_ready: bool) {
    set_ready_quietly(is_ready);
    changed(c"recording", is_ready);
}

/// Sets whether the Kotlin library traces coroutines. Called in each start of the agent, on its thread.
pub(crate) fn trace_coroutines(is_on: bool) {
    // ORDERING: Relaxed; only the report uses it.
    if TRACES_COROUTINES.swap(is_on, Ordering::Relaxed) != is_on {
        changed(c"coroutines", is_on);
    }
}

/// Returns whether the Kotlin library traces coroutines.
pub(crate) fn traces_coroutines() -> bool {
    // ORDERING: Relaxed; see `trace_coroutines`.
    TRACES_COROUTINES.load(Ordering::Relaxed)
}

static TRACES_COROUTINES: AtomicBool = AtomicBool::new(false);

/// Sets the flag where no foreign code may run: in a forked child, after a panic.
pub(crate) fn set_ready_quietly(is_ready: bool) {
    // ORDERING: Release, pairs with the Acquire in `is_recording`: the tags were forced before.
    IS_READY.store(is_ready, Ordering::Release);
    // ORDERING: Release: the flag is cleared before the tags are restored (relaxed stores).
    fence(Ordering::Release);
}

/// Records an instant of the agent's own on the calling thread: a note about the trace.
pub(crate) fn note(text: &str) {
    if let Some(state) = thread::current() {
        let end = text.char_indices().nth(512).map_or(text.len(), |(index, _)| index);
        packed::record(state, Packed::head(Kind::Instant, 0), None, &text.as_bytes()[..end]);
    }
}

/// A section of the calling thread, from its making to its drop.
///
/// ```
/// let _section = tracetee::Section::begin("decode");
/// ```
#[derive(Debug)]
#[must_use = "the section ends where this is dropped"]
pub struct Section {
    was_recorded: bool,
    /// Keeps the section on the thread that began it.
    thread: PhantomData<*const ()>,
}

impl Section {
    /// Begins it.
    #[inline]
    pub fn begin(name: &str) -> Self {
        Self { was_recorded: begin_recorded(name), thread: PhantomData }
    }
}

impl Drop for Section {
    #[inline]
    fn drop(&mut self) {
        // The end of a section that began before the capture would end another one.
        end_recorded(self.was_recorded);
    }
}

/// Begins a section of the calling thread that [`end_section`] ends.
#[inline]
pub fn begin_section(name: &str) {
    if is_recording() {
        record(Kind::Begin, name.as_bytes(), None);
    }
}

/// Ends the innermost section of the calling thread.
#[inline]
pub fn end_section() {
    if is_recording() {
        record(Kind::End, &[], None);
    }
}

/// Begins a section; returns true if its begin is in the capture, for [`end_recorded`].
#[inline]
pub(crate) fn begin_recorded(name: &str) -> bool {
    is_recording() && record(Kind::Begin, name.as_bytes(), None)
}

/// Ends the innermost section, if its begin is in the capture.
#[inline]
pub(crate) fn end_recorded(was_recorded: bool) {
    if was_recorded && is_recording() {
        record(Kind::End, &[], None);
    }
}

/// Begins an asynchronous slice, which may end on another thread; `cookie` distinguishes slices of one name.
#[inline]
pub fn begin_async(name: &str, cookie: i32) {
    if is_recording() {
        record(Kind::AsyncBegin, name.as_bytes(), Some(cookie.into()));
    }
}

/// Ends it.
#[inline]
pub fn end_async(name: &str, cookie: i32) {
    if is_recording() {
        record(Kind::AsyncEnd, name.as_bytes(), Some(cookie.into()));
    }
}

/// Sets a counter to a value.
#[inline]
pub fn counter(name: &str, value: i64) {
    if is_recording() {
        record(Kind::Counter, name.as_bytes(), Some(value));
    }
}

/// Begins an asynchronous slice on a track; it may end on another thread.
#[inline]
pub fn begin_track(track: &str, name: &str, cookie: i32) {
    if is_recording() {
        record_on(Kind::TrackBegin, track.as_bytes(), name.as_bytes(), Some(cookie.into()));
    }
}

/// Ends it.
#[inline]
pub fn end_track(track: &str, cookie: i32) {
    if is_recording() {
        record_on(Kind::TrackEnd, track.as_bytes(), &[], Some(cookie.into()));
    }
}

/// Marks a moment on the calling thread.
#[inline]
pub fn instant(name: &str) {
    if is_recording() {
        record(Kind::Instant, name.as_bytes(), None);
    }
}

/// Records an event; returns true if it was recorded.
#[cold]
pub(crate) fn record(kind: Kind, name: &[u8], number: Option<i64>) -> bool {
    put(kind, 0, cut(name), number)
}

/// Records an event on a track; returns true if it was recorded.
#[cold]
pub(crate) fn record_on(kind: Kind, track: &[u8], name: &[u8], number: Option<i64>) -> bool {
    let mut names = [0; 2 * MAX_NAME_BYTES];
    let (track, name) = (cut(track), cut(name));
    // A bar would end the track's name.
    let of_track = track.iter().map(|&byte| if byte == b'|' { b' ' } else { byte });
    let bytes = of_track.chain(name.iter().copied());
    names.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
    let names = names.get(..track.len() + name.len()).unwrap_or(&names);
    put(kind, track.len(), names, number)
}

fn cut(name: &[u8]) -> &[u8] {
    name.get(..MAX_NAME_BYTES).unwrap_or(name)
}

/// Records an event. `names` is the track's name, `track_bytes` long, and the event's.
fn put(kind: Kind, track_bytes: usize, names: &[u8], number: Option<i64>) -> bool {
    let head = Packed::head(kind, track_bytes);
    let Some(state) = thread::current() else {
        session::count_unplaced_loss(Loss::TooManyThreads);
        return false;
    };
    let was_recorded = packed::record(state, head, number, names);
    if was_recorded && tag_words::passes_on() {
        pass_on(head, number, names);
    }
    was_recorded
}

/// Writes a record to the kernel, for the system trace that is on. In a guard, because the text is allocated.
#[cold]
fn pass_on(head: u64, number: Option<i64>, names: &[u8]) {
    let _ = guard::run(|| write_text(head, number, names));
}

/// Writes a record with details to the kernel without them, for the system trace that is on. A complete event is not written: its
/// time is over.
pub(crate) fn pass_on_rich(words: &[u64], bytes: &[u8]) {
    if tag_words::passes_on() {
        let _ = guard::run(|| {
            let words = words.iter().flat_map(|word| word.to_le_bytes());
            let stored: Vec<u8> = words.chain(bytes.iter().copied()).collect();
            if let Some(Rich::Marker(packed, _)) = Rich::parse(&stored) {
                write_packed(&packed);
            }
        });
    }
}

fn write_text(head: u64, number: Option<i64>, names: &[u8]) {
    let mut bytes = head.to_le_bytes().to_vec();
    bytes.extend_from_slice(number.map(i64::to_le_bytes).as_ref().map_or(&[], |word| word));
    bytes.extend_from_slice(names);
    if let Some(packed) = Packed::parse(&bytes) {
        write_packed(&packed);
    }
}

fn write_packed(packed: &Packed<'_>) {
    let Some(fd) = tag_words::marker_fd() else { return };
    let text = packed.to_text(std::process::id());
    let errno = tracetee_recorder::errno::Saved::now();
    // SAFETY: `text.len()` bytes; past the hook, which would record them a second time.
    unsafe { libc::syscall(libc::SYS_write, fd, text.as_ptr(), text.len()) };
    errno.restore();
}
