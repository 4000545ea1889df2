//! The trace event format, in the dialects of Chrome and Dart.

use crate::lossiness::Dropped;
use std::io::{self, Write};
use std::ops::Range;
use tracetee_trace::{Async, Event, FlowKind, NameId, Timeline, Trace};

/// The dialect of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `chrome://tracing`, speedscope, Perfetto.
    Chrome,
    /// The Dart VM's timeline: streams as categories, ids in hex without 0x, threads named `NAME (TID)`.
    Dart,
}

/// Dart's events have a stream; other events go to the embedder's.
const EMBEDDER: &str = "Embedder";

/// catapult ignores async slices without a category; our reader removes this one.
pub(crate) const IN_ASYNC: &str = "async slices without a category, put into category async";

pub(crate) fn write(
    trace: &Trace,
    dialect: Dialect,
    out: &mut impl Write,
    dropped: &mut Dropped,
) -> io::Result<()> {
    let mut writer = Writer {
        names: trace.names.iter().map(|(_, name)| quoted(name)).collect(),
        trace,
        dialect,
        is_first: true,
        counted: 0..0,
        out,
    };
    writer.head()?;
    writer.metadata()?;
    for (at_ns, event) in Timeline::new(trace) {
        writer.event(at_ns, event)?;
    }
    writer.out.write_all(b"\n]}\n")?;
    let pidless = trace.threads.values().filter(|thread| thread.pid.is_none()).count();
    dropped.add("threads without a process, put into process 0", pidless as u64);
    let is_other = |key: u32, pid: u32| {
        let own = trace.threads.get(&key).and_then(|thread| thread.pid);
        own.is_some_and(|own| own != pid)
    };
    let on_tracks = trace.instants.iter().filter(|one| one.track.is_some());
    let of_asyncs = trace.asyncs.iter().map(|one| (one.threads[0], one.pid));
    let of_counters = trace.counters.iter().map(|one| (one.thread, one.pid));
    let of_processes = of_asyncs.chain(of_counters);
    let of_processes = of_processes.chain(on_tracks.map(|one| (one.thread, one.pid)));
    let others = of_processes.filter(|&(key, pid)| is_other(key, pid)).count();
    dropped.add(
        "async slices, instants and counters of other processes, put on their main thread",
        others as u64,
    );
    let on_threads = trace.instants.iter().filter(|one| one.track.is_none());
    let others = on_threads.filter(|one| is_other(one.thread, one.pid)).count();
    dropped.add("instants of other processes, put into that of their thread", others as u64);
    let is_nameless = |id: NameId| trace.names.text(id).is_empty();
    let slices = trace.threads.values().flat_map(|thread| &thread.slices).map(|one| one.name);
    let names = slices.chain(trace.asyncs.iter().map(|one| one.name));
    let names = names.chain(trace.instants.iter().map(|one| one.name));
    let nameless = names.filter(|&id| is_nameless(id)).count();
    dropped.add("slices and instants without a name, which readers name", nameless as u64);
    dropped.add(
        "battery_stats counters, put into their process",
        trace.counters.iter().filter(|one| is_of_battery(trace, one.name)).count() as u64,
    );
    dropped.add("instants of several tracks at one time, nested by readers", crossing(trace));
    if dialect == Dialect::Dart {
        let slices = trace.threads.values().flat_map(|thread| &thread.slices);
        let categories = slices.map(|one| one.category);
        let categories = categories.chain(trace.asyncs.iter().map(|one| one.category));
        let categories = categories.chain(trace.instants.iter().map(|one| one.category));
        let placed = categories.filter(|&category| category == NameId::NONE).count();
        dropped.add(
            "slices and instants without a category, put into category Embedder",
            placed as u64,
        );
        let named = trace.threads.values().filter(|thread| !thread.names.is_empty()).count();
        dropped.add("thread names, written with the thread's id appended", named as u64);
    }
    if dialect == Dialect::Chrome {
        let placed = trace.asyncs.iter().filter(|one| one.category == NameId::NONE).count();
        dropped.add(IN_ASYNC, placed as u64);
    }
    Ok(())
}

/// True for counters in kernel text that Perfetto assigns to the device, not to a process.
fn is_of_battery(trace: &Trace, name: NameId) -> bool {
    trace.names.text(name).starts_with("battery_stats.")
}

/// Counts instants of a process at the time of one on another of its tracks: readers have one track for them all.
fn crossing(trace: &Trace) -> u64 {
    let on_tracks = trace.instants.iter();
    let on_tracks = on_tracks.filter_map(|one| Some((one.pid, one.at_ns, one.track?.number())));
    let mut on_tracks: Vec<_> = on_tracks.collect();
    on_tracks.sort_unstable();
    let same = |pair: &&[(u32, u64, u32)]| match pair {
        [a, b] => (a.0, a.1) == (b.0, b.1) && a.2 != b.2,
        _ => false,
    };
    on_tracks.windows(2).filter(same).count() as u64
}

struct Writer<'a, W> {
    trace: &'a Trace,
    /// Names as JSON strings, by id.
    names: Vec<Box<str>>,
    dialect: Dialect,
    is_first: bool,
    /// Counter values that the last counter's event has.
    counted: Range<usize>,
    out: &'a mut W,
}

/// The id of an async slice, of its process: its cookie, and a hash of its other distinguishing properties. Perfetto pairs
/// only by id.
fn async_id(trace: &Trace, one: &Async) -> String {
    // Chrome's own slices are distinguished by category, others by track or name.
    let key = match (one.track, one.category) {
        (Some(track), _) => track,
        (None, NameId::NONE) => one.name,
        (None, category) => category,
    };
    let kind = [u8::from(one.track.is_some()), u8::from(one.category == NameId::NONE)];
    let text = trace.names.text(key).as_bytes();
    let hash = kind.iter().chain(text).fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{:#x}.{hash:016x}", one.cookie.cast_unsigned())
}

pub(crate) fn quoted(text: &str) -> Box<str> {
    serde_json::Value::from(text).to_string().into()
}

impl<W: Write> Writer<'_, W> {
    fn head(&mut self) -> io::Result<()> {
        let (first_ns, last_ns) = self.trace.span_ns.unwrap_or_default();
        match self.dialect {
            Dialect::Chrome => {
                self.out.write_all(b"{\"displayTimeUnit\":\"ns\",")?;
                if !self.trace.about.is_empty() {
                    let about = self.trace.about.to_json();
                    write!(self.out, "\"otherData\":{about},")?;
                }
            }
            Dialect::Dart => write!(
                self.out,
                "{{\"type\":\"Timeline\",\"timeOriginMicros\":{},\"timeExtentMicros\":{},",
                first_ns / 1000,
                (last_ns - first_ns).div_ceil(1000)
            )?,
        }
        self.out.write_all(b"\"traceEvents\":[\n")
    }

    fn name(&self, id: NameId) -> &str {
        self.names.get(id.number() as usize).map_or("\"\"", |name| name)
    }

    fn begin(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.is_first) {
            self.out.write_all(b",\n")?;
        }
        Ok(())
    }

    fn metadata(&mut self) -> io::Result<()> {
        let trace = self.trace;
        for (pid, process) in &trace.processes {
            self.begin()?;
            let name = self.names.get(process.name.number() as usize).map_or("\"\"", |name| name);
            write!(
                self.out,
                "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{pid},\"tid\":{pid},\"args\":{{\"name\":{name}}}}}"
            )?;
        }
        let live = trace.threads.values().filter_map(|thread| {
            let &(_, name) = thread.names.last()?;
            Some((thread.pid.unwrap_or(0), thread.tid, name))
        });
        let silent = trace
            .dumped
            .iter()
            .filter(|&(tid, &(_, name))| !trace.threads.contains_key(tid) && name != NameId::NONE);
        let silent = silent.map(|(&tid, &(pid, name))| (pid, tid, name));
        for (pid, tid, name) in live.chain(silent) {
            let name = match self.dialect {
                Dialect::Chrome => self.name(name).into(),
                Dialect::Dart => quoted(&format!("{} ({tid})", trace.names.text(name))),
            };
            self.begin()?;
            write!(
                self.out,
                "{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{pid},\"tid\":{tid},\"args\":{{\"name\":{name}}}}}"
            )?;
        }
        Ok(())
    }

    fn event(&mut self, at_ns: u64, event: Event) -> io::Result<()> {
        match self.trace_event(at_ns, event)? {
            Some(()) => self.out.write_all(b"}"),
            None => Ok(()),
        }
    }

    /// Writes the fields that all events have.
    fn head_of(&mut self, ph: &str, key: u32, pid: Option<u32>, at_ns: u64) -> io::Result<()> {
        let thread = self.trace.threads.get(&key);
        let tid = thread.map_or(key, |thread| thread.tid);
        let pid = thread.and_then(|thread| thread.pid).or(pid).unwrap_or(0);
        self.begin()?;
        write!(self.out, "{{\"ph\":\"{ph}\",\"pid\":{pid},\"tid\":{tid}")?;
        self.ts(at_ns)
    }

    /// The same for a record that belongs to a process: a record of a process other than its thread's is on that process's
    /// main thread.
    fn head_of_process(&mut self, ph: &str, key: u32, pid: u32, at_ns: u64) -> io::Result<()> {
        let own = self.trace.threads.get(&key).and_then(|thread| thread.pid);
        if own.is_none_or(|own| own == pid) {
            return self.head_of(ph, key, Some(pid), at_ns);
        }
        self.begin()?;
        write!(self.out, "{{\"ph\":\"{ph}\",\"pid\":{pid},\"tid\":{pid}")?;
        self.ts(at_ns)
    }

    fn ts(&mut self, at_ns: u64) -> io::Result<()> {
        self.us("ts", Some(at_ns))
    }

    /// Writes a time in microseconds.
    fn us(&mut self, key: &str, ns: Option<u64>) -> io::Result<()> {
        let Some(ns) = ns else { return Ok(()) };
        write!(self.out, ",\"{key}\":{}", ns / 1000)?;
        match ns % 1000 {
            0 => Ok(()),
            ns => write!(self.out, ".{ns:03}"),
        }
    }

    fn named(&mut self, name: NameId, category: NameId) -> io::Result<()> {
        let name = self.names.get(name.number() as usize).map_or("\"\"", |name| name);
        write!(self.out, ",\"name\":{name}")?;
        match self.names.get(category.number() as usize) {
            Some(category) if &**category != "\"\"" => write!(self.out, ",\"cat\":{category}"),
            _ if self.dialect == Dialect::Dart => write!(self.out, ",\"cat\":\"{EMBEDDER}\""),
            _ => Ok(()),
        }
    }

    fn args(&mut self, args: Option<NameId>) -> io::Result<()> {
        match args.map(|args| self.trace.names.text(args)).filter(|args| !args.is_empty()) {
            Some(args) => write!(self.out, ",\"args\":{args}"),
            None => Ok(()),
        }
    }

    fn id(&mut self, id: u64) -> io::Result<()> {
        match self.dialect {
            Dialect::Chrome => write!(self.out, ",\"id\":\"{id:#x}\""),
            Dialect::Dart => write!(self.out, ",\"id\":\"{id:x}\""),
        }
    }

    fn trace_event(&mut self, at_ns: u64, event: Event) -> io::Result<Option<()>> {
        let trace = self.trace;
        match event {
            Event::Begin(key, index) | Event::End(key, index) => {
                let Some(thread) = trace.threads.get(&key) else { return Ok(None) };
                let Some(slice) = thread.slices.get(index as usize) else { return Ok(None) };
                let (begin_ns, end_ns) = thread.cpu_of(index);
                if matches!(event, Event::Begin(..)) {
                    self.head_of(if slice.is_complete { "X" } else { "B" }, key, None, at_ns)?;
                    self.named(slice.name, slice.category)?;
                    self.us("tts", begin_ns)?;
                    if slice.is_complete && slice.ended {
                        self.us("dur", Some(slice.duration_ns()))?;
                        let took_ns = begin_ns.zip(end_ns);
                        self.us("tdur", took_ns.map(|(begin, end)| end.saturating_sub(begin)))?;
                    }
                    self.args(thread.args.get(&index).copied())?;
                } else if slice.is_complete {
                    return Ok(None);
                } else {
                    self.head_of("E", key, None, at_ns)?;
                    self.named(slice.name, slice.category)?;
                    self.us("tts", end_ns)?;
                }
            }
            Event::StayOpen(..) => return Ok(None),
            Event::AsyncBegin(index) | Event::AsyncEnd(index) => {
                let Some(one) = trace.asyncs.get(index) else { return Ok(None) };
                let is_begin = matches!(event, Event::AsyncBegin(_));
                let is_instant = one.start_ns == one.end_ns && one.threads[0] == one.threads[1];
                let (ph, key) = match is_begin {
                    true if is_instant => ("n", one.threads[0]),
                    false if is_instant => return Ok(None),
                    true => ("b", one.threads[0]),
                    false => ("e", one.threads[1]),
                };
                self.head_of_process(ph, key, one.pid, at_ns)?;
                self.named(one.name, one.category)?;
                // catapult leaves out those without a category; the reader knows this one by the id's form.
                if one.category == NameId::NONE && self.dialect == Dialect::Chrome {
                    self.out.write_all(b",\"cat\":\"async\"")?;
                }
                write!(self.out, ",\"id2\":{{\"local\":\"{}\"}}", async_id(trace, one))?;
                self.scope(one.track)?;
                self.args(is_begin.then_some(one.args))?;
            }
            Event::Instant(index) => {
                let Some(one) = trace.instants.get(index) else { return Ok(None) };
                // An instant on a track is one of its process.
                let scope = if one.track.is_some() {
                    self.head_of_process("i", one.thread, one.pid, at_ns)?;
                    "p"
                } else {
                    self.head_of("i", one.thread, Some(one.pid), at_ns)?;
                    "t"
                };
                self.named(one.name, one.category)?;
                self.us("tts", Some(one.cpu_ns).filter(|&cpu_ns| cpu_ns > 0))?;
                write!(self.out, ",\"s\":\"{scope}\"")?;
                self.scope(one.track)?;
                self.args(Some(one.args))?;
            }
            Event::Counter(index) if self.counted.contains(&index) => return Ok(None),
            Event::Counter(index) => return self.counter(at_ns, index),
            Event::Flow(index) => {
                let Some(one) = trace.flows.get(index) else { return Ok(None) };
                let ph = match one.kind {
                    FlowKind::Start => "s",
                    FlowKind::Step => "t",
                    FlowKind::End | FlowKind::EndAtNext => "f",
                };
                self.head_of(ph, one.thread, None, at_ns)?;
                self.named(one.name, one.category)?;
                self.id(one.id)?;
                if one.kind == FlowKind::End {
                    self.out.write_all(b",\"bp\":\"e\"")?;
                }
            }
        }
        Ok(Some(()))
    }

    /// Writes a counter's values of one time: a value for each series.
    fn counter(&mut self, at_ns: u64, index: usize) -> io::Result<Option<()>> {
        let trace = self.trace;
        let values = trace.counters.get(index..).unwrap_or_default();
        let Some(first) = values.first() else { return Ok(None) };
        let series = |name| match trace.series.get(&name) {
            Some(&(counter, key)) => (counter, trace.names.text(key)),
            None => (name, "value"),
        };
        let (counter, _) = series(first.name);
        self.head_of_process("C", first.thread, first.pid, at_ns)?;
        self.named(counter, NameId::NONE)?;
        self.out.write_all(b",\"args\":{")?;
        self.counted = index..index;
        let mut before = None;
        for one in values {
            let (its_counter, key) = series(one.name);
            let is_of_event = (its_counter, one.thread, one.pid, one.at_ns)
                == (counter, first.thread, first.pid, at_ns);
            // Keys are sorted, so a repeated key belongs to another event.
            if !is_of_event || before.is_some_and(|before| key <= before) {
                break;
            }
            let comma = if before.is_some() { "," } else { "" };
            // JSON has neither NaN nor infinities; Perfetto reads both from text. All of Dart's values are strings.
            let is_number = self.dialect == Dialect::Chrome && one.value.is_finite();
            let quote = if is_number { "" } else { "\"" };
            write!(self.out, "{comma}{}:{quote}{}{quote}", quoted(key), one.value)?;
            (before, self.counted.end) = (Some(key), self.counted.end + 1);
        }
        self.out.write_all(b"}")?;
        Ok(Some(()))
    }

    fn scope(&mut self, track: Option<NameId>) -> io::Result<()> {
        match track {
            Some(track) => {
                let track = self.names.get(track.number() as usize).map_or("\"\"", |name| name);
                write!(self.out, ",\"scope\":{track}")
            }
            None => Ok(()),
        }
    }
}
