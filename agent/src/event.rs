//! Your own records with details: category, arguments, flows, processor time; given times; counters with fractions.
//!
//! An [`Event`] borrows all its parts, and is stored without an allocation. [`crate::section`] has sections without details.
//! While nothing is recorded, a call is a load and a branch.

use crate::section::{self, MAX_NAME_BYTES, is_recording};
use std::marker::PhantomData;
use tracetee_recorder::details::{Encoder, FlowPoint, MAX_DETAIL_BYTES, Value, cpu_words, cut};
use tracetee_recorder::layout::Loss;
use tracetee_recorder::record::Kind;
use tracetee_recorder::rich::{COMPLETE, IS_REAL, Rich};
use tracetee_recorder::{clock, session, thread};
use tracetee_tee::packed;

/// Value of an argument.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum ArgValue<'a> {
    /// Text, cut at 500 bytes.
    Text(&'a str),
    /// A whole number.
    Int(i64),
    /// A number.
    Real(f64),
    /// True or false.
    Bool(bool),
}

macro_rules! values {
    ($($from:ty => $variant:ident,)*) => {
        $(impl From<$from> for ArgValue<'_> {
            fn from(value: $from) -> Self {
                Self::$variant(value.into())
            }
        })*
    };
}

values! { i64 => Int, i32 => Int, u32 => Int, u16 => Int, f64 => Real, f32 => Real, bool => Bool, }

impl<'a> From<&'a str> for ArgValue<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<'a> ArgValue<'a> {
    const fn stored(self) -> Value<'a> {
        match self {
            Self::Text(text) => Value::Text(text.as_bytes()),
            Self::Int(number) => Value::Int(number),
            Self::Real(number) => Value::Real(number),
            Self::Bool(is) => Value::Bool(is),
        }
    }
}

/// A point of a flow, an arrow that viewers draw from record to record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    point: FlowPoint,
    id: u64,
}

impl Flow {
    /// The flow with this id begins at the record. Ids are the process's.
    #[must_use]
    pub const fn begin(id: u64) -> Self {
        Self { point: FlowPoint::Begin, id }
    }

    /// The flow passes through the record.
    #[must_use]
    pub const fn step(id: u64) -> Self {
        Self { point: FlowPoint::Step, id }
    }

    /// The flow ends at the record.
    #[must_use]
    pub const fn end(id: u64) -> Self {
        Self { point: FlowPoint::End, id }
    }
}

/// A record with details, until one of its last calls records it.
///
/// Details take at most 1000 bytes together: 100 for a category or key, 500 for a text. The trace counts those beyond that.
///
/// ```
/// use tracetee::{Event, Flow};
/// let _section = Event::new("fetch")
///     .category("net")
///     .args(&[("url", "/feed".into()), ("attempt", 2.into())])
///     .flows(&[Flow::begin(17)])
///     .section();
/// ```
#[derive(Debug, Clone, Copy)]
#[must_use = "an event is recorded by its last call, such as `instant`"]
pub struct Event<'a> {
    name: &'a str,
    category: &'a str,
    args: &'a [(&'a str, ArgValue<'a>)],
    flows: &'a [Flow],
    thread_time: bool,
}

impl<'a> Event<'a> {
    /// An event of this name, without details.
    pub const fn new(name: &'a str) -> Self {
        Self { name, category: "", args: &[], flows: &[], thread_time: false }
    }

    /// Sets the category.
    pub const fn category(mut self, category: &'a str) -> Self {
        self.category = category;
        self
    }

    /// Sets the arguments.
    pub const fn args(mut self, args: &'a [(&'a str, ArgValue<'a>)]) -> Self {
        self.args = args;
        self
    }

    /// Sets the points of flows.
    pub const fn flows(mut self, flows: &'a [Flow]) -> Self {
        self.flows = flows;
        self
    }

    /// Adds the thread's processor time, which costs a system call: in a section to its begin and its end.
    pub const fn thread_time(mut self) -> Self {
        self.thread_time = true;
        self
    }

    /// Begins a section of the calling thread, which ends when the result is dropped.
    pub fn section(self) -> EventSection {
        let (thread_time, was_recorded) = (self.thread_time, self.begin_recorded());
        EventSection { was_recorded, thread_time, thread: PhantomData }
    }

    /// Begins a section; returns true if its begin is in the capture.
    pub(crate) fn begin_recorded(self) -> bool {
        is_recording() && self.put(Shape::of(Kind::Begin), "")
    }

    /// Begins a section of the calling thread that [`crate::end_section`] or [`Event::end`] ends.
    pub fn begin(self) {
        self.record(Shape::of(Kind::Begin), "");
    }

    /// Ends the innermost section of the calling thread. Details are added to those of its begin; the name is not used.
    pub fn end(self) {
        Self { name: "", ..self }.record(Shape::of(Kind::End), "");
    }

    /// Begins an asynchronous slice, which may end on another thread; `cookie` distinguishes slices of one name.
    pub fn begin_async(self, cookie: i32) {
        self.record(Shape::with(Kind::AsyncBegin, cookie.into()), "");
    }

    /// Ends it.
    pub fn end_async(self, cookie: i32) {
        self.record(Shape::with(Kind::AsyncEnd, cookie.into()), "");
    }

    /// Begins an asynchronous slice on a track; it may end on another thread.
    pub fn begin_track(self, track: &str, cookie: i32) {
        self.record(Shape::with(Kind::TrackBegin, cookie.into()), track);
    }

    /// Ends it; the name is not used.
    pub fn end_track(self, track: &str, cookie: i32) {
        Self { name: "", ..self }.record(Shape::with(Kind::TrackEnd, cookie.into()), track);
    }

    /// Marks a moment on the calling thread.
    pub fn instant(self) {
        self.record(Shape::of(Kind::Instant), "");
    }

    /// Marks a moment on a track, which no thread has.
    pub fn track_instant(self, track: &str) {
        self.record(Shape::of(Kind::TrackInstant), track);
    }

    /// Records a section of the calling thread that has ended, with its begin and end from [`now_ns`]. Times in the wrong
    /// order are swapped, a time of 0 is replaced by the other one, and both are counted; an end in the future becomes now.
    /// In the trace it is a section if it nests in the thread's sections, otherwise an asynchronous slice. It does not go to
    /// a system trace.
    pub fn complete(self, begin_ns: u64, end_ns: u64) {
        self.record(Shape::complete(begin_ns, end_ns), "");
    }

    /// Sets the counter of this name to a value with a fraction.
    pub fn counter(self, value: f64) {
        self.record(Shape::real(value), "");
    }

    fn record(self, shape: Shape, track: &str) {
        if is_recording() {
            self.put(shape, track);
        }
    }

    #[cold]
    fn put(self, shape: Shape, track: &str) -> bool {
        let mut details = Encoder::default();
        details.category(self.category.as_bytes());
        self.flows.iter().for_each(|flow| details.flow(flow.point, flow.id));
        for (key, value) in self.args {
            details.argument(key.as_bytes(), value.stored());
        }
        record(shape, &mut details, self.thread_time, track.as_bytes(), self.name.as_bytes())
    }
}

/// A section with details, from its making to its drop.
#[derive(Debug)]
#[must_use = "the section ends where this is dropped"]
pub struct EventSection {
    was_recorded: bool,
    thread_time: bool,
    /// Keeps the section on the thread that began it.
    thread: PhantomData<*const ()>,
}

impl Drop for EventSection {
    fn drop(&mut self) {
        if self.was_recorded && is_recording() {
            let thread_time = self.thread_time;
            Event { thread_time, ..Event::new("") }.end();
        }
    }
}

/// Returns the time by which complete events are given: CLOCK_BOOTTIME, ns.
#[must_use]
pub fn now_ns() -> u64 {
    clock::boot_ns()
}

/// Sets several series of a counter to values, each a counter `NAME.SERIES`.
pub fn counters(name: &str, series: &[(&str, f64)]) {
    if is_recording() {
        for (one, value) in series {
            record_series(name.as_bytes(), one.as_bytes(), *value);
        }
    }
}

/// Records a value of a counter's series; without a series, of the counter.
pub(crate) fn record_series(name: &[u8], series: &[u8], value: f64) -> bool {
    let mut bytes = [0; MAX_NAME_BYTES];
    let dot: &[u8] = if series.is_empty() { b"" } else { b"." };
    let chars = [name, dot, series].into_iter().flatten();
    let len = bytes.iter_mut().zip(chars).map(|(to, byte)| *to = *byte).count();
    let name = bytes.get(..len).unwrap_or(&bytes);
    record(Shape::real(value), &mut Encoder::default(), false, b"", name)
}

/// Kind of a record, and its numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    letter: u8,
    flags: u8,
    numbers: [u64; 2],
    count: usize,
}

impl Shape {
    /// A record without a number.
    pub(crate) const fn of(kind: Kind) -> Self {
        Self { letter: kind as u8, flags: 0, numbers: [0; 2], count: 0 }
    }

    /// A record with a cookie or a value.
    pub(crate) const fn with(kind: Kind, number: i64) -> Self {
        Self { numbers: [number.cast_unsigned(), 0], count: 1, ..Self::of(kind) }
    }

    /// A counter with a fraction.
    pub(crate) const fn real(value: f64) -> Self {
        let number = value.to_bits().cast_signed();
        Self { flags: IS_REAL, ..Self::with(Kind::Counter, number) }
    }

    /// A complete event.
    pub(crate) const fn complete(begin_ns: u64, end_ns: u64) -> Self {
        Self { letter: COMPLETE, flags: 0, numbers: [begin_ns, end_ns], count: 2 }
    }
}

/// Records an event with details; returns true if it was recorded.
pub(crate) fn record(
    shape: Shape,
    details: &mut Encoder,
    thread_time: bool,
    track: &[u8],
    name: &[u8],
) -> bool {
    let mut bytes = [0; MAX_DETAIL_BYTES + 2 * MAX_NAME_BYTES];
    let details = details.finish();
    let (track, name) = (cut(track, MAX_NAME_BYTES), cut(name, MAX_NAME_BYTES));
    // A bar would end the track's name.
    let of_track = track.iter().map(|&byte| if byte == b'|' { b' ' } else { byte });
    let all = details.iter().copied().chain(of_track).chain(name.iter().copied());
    bytes.iter_mut().zip(all).for_each(|(to, byte)| *to = byte);
    let len = details.len() + track.len() + name.len();
    let bytes = bytes.get(..len).unwrap_or(&bytes);
    put(shape, details.len(), track.len(), thread_time, bytes)
}

/// Maximum size of a record that Kotlin's `Event` lays out.
#[cfg(feature = "jni")]
pub(crate) const MAX_LAID_OUT_BYTES: usize = 24 + MAX_DETAIL_BYTES + 2 * MAX_NAME_BYTES;

/// Records what Kotlin's `Event` has laid out, see [`tracetee_recorder::rich`]; returns true if it was recorded. Bytes that
/// are not a record are ignored.
#[cfg(feature = "jni")]
pub(crate) fn record_laid_out(bytes: &[u8]) -> bool {
    if Rich::parse(bytes).is_none() {
        return false;
    }
    let Some((&[letter, flags, t0, t1, d0, d1, _, _], rest)) = bytes.split_first_chunk::<8>()
    else {
        return false;
    };
    let count = match letter {
        COMPLETE => 2,
        b'S' | b'F' | b'C' | b'G' | b'H' => 1,
        _ => 0,
    };
    let (words, rest) = rest.split_at_checked(count * 8).unwrap_or((&[], rest));
    let mut numbers = [0; 2];
    for (number, word) in numbers.iter_mut().zip(words.as_chunks().0) {
        *number = u64::from_le_bytes(*word);
    }
    let shape = Shape { letter, flags: flags & IS_REAL, numbers, count };
    let (track, details) = (u16::from_le_bytes([t0, t1]), u16::from_le_bytes([d0, d1]));
    put(shape, details.into(), track.into(), flags & tracetee_recorder::rich::WANTS_CPU != 0, rest)
}

/// Records an event. `bytes` are its details, its track's name and its own, of these lengths.
fn put(shape: Shape, details: usize, track: usize, thread_time: bool, bytes: &[u8]) -> bool {
    let Some(state) = thread::current() else {
        session::count_unplaced_loss(Loss::TooManyThreads);
        return false;
    };
    let [tag, cpu_ns] = if thread_time { cpu_words(clock::thread_cpu_ns()) } else { [0; 2] };
    let cpu_bytes = if thread_time { 16 } else { 0 };
    let head = Rich::head(shape.letter, shape.flags, track, details + cpu_bytes);
    let [first, second] = shape.numbers;
    let words = match (shape.count, thread_time) {
        (0, _) => [head, tag, cpu_ns, 0, 0],
        (1, _) => [head, first, tag, cpu_ns, 0],
        _ => [head, first, second, tag, cpu_ns],
    };
    let count = 1 + shape.count + cpu_bytes / 8;
    let words = words.get(..count).unwrap_or(&words);
    let was_recorded = packed::record_rich(state, words, bytes);
    if was_recorded {
        section::pass_on_rich(words, bytes);
    }
    was_recorded
}
