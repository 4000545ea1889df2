//! A trace being written: takes events in order of time, filters, repairs, formats.
//!
//! It outlives the snapshots that events come from, so that a trace can be streamed in parts.

use super::cut::{Cut, Early, Phase, Span};
use super::line::{self, Precision};
use super::merge::{Event, Merge, Place, Source};
use super::redact::Redactor;
use super::repair::{Fate, Repair};
use super::shorts::{Role, Shorts};
use super::sink::Sink;
use super::summary::{Summary, ThreadSummary};
use super::threads::{Class, Threads};
use super::{MinSlice, TextOptions};
use crate::error::Error;
use std::path::Path;
use tracetee_recorder::layout::{Form, NAME_BYTES};
use tracetee_recorder::progress::PoolPlace;
use tracetee_recorder::reader::PoolReader;
use tracetee_recorder::record::{Kind, Packed, Record};

/// What happens on a thread, in its own memory: the snapshot that it came from may go.
#[derive(Debug)]
enum Step {
    Record(Form, Vec<u8>, Option<PoolPlace>),
    /// The thread's name from here on, and whether records are missing before.
    Segment([u8; NAME_BYTES], bool),
    ThreadEnd(Option<PoolPlace>),
    CaptureEnd,
}

/// The trace.
pub(crate) struct Trace {
    /// `None`: nothing is written, only counted.
    sink: Option<Sink>,
    options: TextOptions,
    threads: Threads,
    repair: Repair,
    shorts: Option<Shorts<Step>>,
    cut: Option<Cut>,
    redactor: Option<Redactor>,
    /// Lines of the header that say what this trace is.
    comments: Vec<String>,
    by_kind: [u64; Kind::ALL.len()],
    by_thread: Vec<u64>,
    first_ns: Option<u64>,
    last_ns: u64,
    has_header: bool,
    summary: Summary,
    /// What was written since it was last taken.
    written: Vec<PoolPlace>,
    /// What was taken from the sources since then.
    taken: Vec<PoolPlace>,
    wants_places: bool,
}

impl Trace {
    /// A trace at `path`; compressed when it ends in `.zst`.
    pub(crate) fn create(path: &Path, options: &TextOptions) -> Result<Self, Error> {
        // The file last: none is left behind for wrong rules.
        let mut trace = Self::with(None, options)?;
        trace.sink = Some(Sink::create(path)?);
        Ok(trace)
    }

    /// Counts only.
    pub(crate) fn counting(options: &TextOptions) -> Result<Self, Error> {
        Self::with(None, options)
    }

    pub(crate) fn with(sink: Option<Sink>, options: &TextOptions) -> Result<Self, Error> {
        let longest_ns = longest_min_slice_ns(&options.min_slice_us);
        Ok(Self {
            sink,
            options: options.clone(),
            threads: Threads::default(),
            repair: Repair::default(),
            shorts: (longest_ns > 0).then(|| Shorts::new(longest_ns)),
            cut: None,
            redactor: options.rules()?.map(Redactor::new),
            comments: Vec::new(),
            by_kind: [0; Kind::ALL.len()],
            by_thread: Vec::new(),
            first_ns: None,
            last_ns: 0,
            has_header: false,
            summary: Summary::default(),
            written: Vec::new(),
            taken: Vec::new(),
            wants_places: false,
        })
    }

    /// Writes only what lies in `span`.
    pub(crate) fn cut_to(&mut self, span: Span) {
        self.cut = Some(Cut::new(span));
    }

    /// Puts a line into the header.
    pub(crate) fn comment(&mut self, text: &str) {
        self.comments.push(format!("# {}\n", text.replace(['\n', '\r'], " ")));
    }

    /// Keeps account of what was written, for [`Trace::take_written`], and the file on a failure.
    pub(crate) fn keep_places(&mut self) {
        self.wants_places = true;
        if let Some(sink) = &mut self.sink {
            sink.keep();
        }
    }

    /// Where the records end that were taken from the sources since the last call.
    pub(crate) fn take_taken(&mut self) -> Vec<PoolPlace> {
        std::mem::take(&mut self.taken)
    }

    /// Where the records end that have gone into the trace since the last call.
    pub(crate) fn take_written(&mut self) -> Vec<PoolPlace> {
        std::mem::take(&mut self.written)
    }

    /// How many sections each thread has open where the trace ends now, by incarnation.
    pub(crate) fn open_sections(&self) -> impl Iterator<Item = (u32, u32)> {
        self.threads.all().iter().enumerate().map(|(index, thread)| {
            (thread.incarnation, u32::try_from(self.repair.depth(index)).unwrap_or(u32::MAX))
        })
    }

    /// Goes on behind a streamed part: threads have sections open.
    pub(crate) fn go_on_behind(&mut self, reader: &PoolReader<'_>) {
        self.has_header = true;
        for facts in reader.threads().iter().filter(|facts| facts.open > 0) {
            let (incarnation, tid) = (facts.incarnation, facts.tid);
            let thread = self.threads.add_named(0, reader.pid(), incarnation, tid, facts.name);
            self.repair.reopen(thread, facts.open, reader.pid().unsigned_abs());
        }
    }

    /// Says that the process did not end this capture itself.
    pub(crate) fn mark_recovered(&mut self) {
        self.summary.recovered = true;
    }

    fn write_header(&mut self, sources: &[Source<'_>]) {
        let Some(first) =
            sources.iter().map(|source| source.reader).min_by_key(PoolReader::start_boot_ns)
        else {
            return;
        };
        let start_ns = first.start_boot_ns();
        let cut_ns = self.cut.as_ref().map_or(0, |cut| cut.span.from_ns);
        let boot_ns = start_ns.max(cut_ns);
        let real_ns = first.start_real_ns().saturating_add(boot_ns - start_ns);
        self.first_ns.get_or_insert(boot_ns);
        if std::mem::replace(&mut self.has_header, true) {
            return;
        }
        let (catapult_only, recovered) = (self.options.catapult_only, self.summary.recovered);
        let precision = self.options.precision;
        let Some(sink) = &mut self.sink else { return };
        sink.buffer().extend_from_slice(line::HEADER.as_bytes());
        let pid = first.pid();
        let prefix = line::prefix("tracetee", pid, pid);
        let mut payloads = vec![
            "trace_event_clock_sync: parent_ts=0".to_owned(),
            format!("trace_event_clock_sync: realtime_ts={}", real_ns / 1_000_000),
        ];
        for comment in &self.comments {
            sink.buffer().extend_from_slice(comment.as_bytes());
        }
        if recovered {
            sink.buffer().extend_from_slice(
                b"# tracetee: recovered, the process did not stop its capture\n",
            );
            if !catapult_only {
                payloads.push(format!("I|{pid}|tracetee: recovered"));
            }
        }
        for payload in payloads {
            let push = |out: &mut Vec<u8>| out.extend_from_slice(payload.as_bytes());
            line::push_line(sink.buffer(), &prefix, boot_ns, precision, push);
        }
    }

    /// Takes all events of `sources` up to `limit_ns`; with `u64::MAX` the pools' ends too, where
    /// open sections are closed.
    pub(crate) fn take(&mut self, sources: &[Source<'_>], limit_ns: u64) -> Result<(), Error> {
        self.write_header(sources);
        let mut merge = Merge::new(sources, &mut self.threads);
        while let Some(event) = merge.next_until(limit_ns) {
            // A later part's times may come out some ns before the last of the earlier part.
            let mut time_ns = event.time_ns().max(self.last_ns);
            let mut phase = Phase::Inside;
            if let Some(cut) = &mut self.cut {
                if let Event::Record { thread, bytes, .. } = event {
                    // Text and packed records begin with their letter.
                    let kind = bytes.first().and_then(|&letter| Kind::from_letter(letter));
                    phase = cut.phase(time_ns, thread, kind);
                } else if time_ns < cut.span.from_ns {
                    phase = Phase::Before;
                }
                if phase == Phase::After {
                    continue;
                }
                time_ns = match event {
                    // The recording goes on behind it.
                    Event::End { .. } => time_ns.max(cut.span.to_ns),
                    _ => time_ns.min(cut.span.to_ns),
                };
            }
            self.last_ns = time_ns;
            if phase == Phase::Inside {
                self.begin_span()?;
            }
            match event {
                Event::Record { thread, form, bytes, place, .. } => {
                    let place = self.place_of(sources, thread, place);
                    match &mut self.cut {
                        Some(cut) if phase == Phase::Before => {
                            let kind = bytes.first().and_then(|&letter| Kind::from_letter(letter));
                            let bytes = bytes.to_vec();
                            cut.look_at(kind, Early { time_ns, thread, form, bytes, place });
                        }
                        _ => self.record(time_ns, thread, form, bytes, place)?,
                    }
                }
                Event::Segment { thread, segment, .. } => {
                    let Some(known) = self.threads.get_mut(thread) else { continue };
                    let is_gap = known.enter(&segment);
                    self.summary.gaps += u64::from(is_gap);
                    self.ends_open(is_gap.then_some(thread));
                    self.pass(time_ns, thread, Step::Segment(segment.name, is_gap))?;
                }
                Event::ThreadEnd { thread, place, .. } => {
                    let place = self.place_of(sources, thread, place);
                    self.ends_open([thread]);
                    self.pass(time_ns, thread, Step::ThreadEnd(place))?;
                }
                Event::End { process, .. } => {
                    let threads = self.threads.all().iter().enumerate();
                    let of_process = threads.filter(|(_, thread)| thread.process == process);
                    for thread in of_process.map(|(index, _)| index).collect::<Vec<_>>() {
                        self.ends_open([thread]);
                        self.pass(time_ns, thread, Step::CaptureEnd)?;
                    }
                }
            }
        }
        self.let_go(limit_ns)
    }

    /// What these threads have open is not judged by what comes later.
    fn ends_open(&mut self, threads: impl IntoIterator<Item = usize>) {
        for thread in threads {
            if let Some(shorts) = &mut self.shorts {
                shorts.close(thread);
            }
            if let Some(cut) = &mut self.cut {
                cut.forget(thread);
            }
        }
    }

    /// With the first event of the span: begins what is open then.
    fn begin_span(&mut self) -> Result<(), Error> {
        let Some(cut) = &mut self.cut else { return Ok(()) };
        let from_ns = cut.span.from_ns;
        for Early { thread, form, bytes, place, .. } in cut.begin() {
            self.record(from_ns, thread, form, &bytes, place)?;
        }
        Ok(())
    }

    /// A record on its way: counted, and left out where the options say so.
    fn record(
        &mut self,
        time_ns: u64,
        thread: usize,
        form: Form,
        bytes: &[u8],
        place: Option<PoolPlace>,
    ) -> Result<(), Error> {
        let Some(known) = self.threads.all().get(thread) else { return Ok(()) };
        let class = known.class();
        let mut scratch = Vec::new();
        let Some(record) = parse(form, bytes, known.pid, &mut scratch) else {
            self.summary.malformed += 1;
            self.note_written(place);
            return Ok(());
        };
        self.count(thread, record.kind());
        if self.options.main_thread_only && class != Class::Main {
            self.summary.other_threads += 1;
            self.note_written(place);
            return Ok(());
        }
        let Some(shorts) = &mut self.shorts else {
            return self.write(time_ns, thread, &record, place);
        };
        let role = match record.kind() {
            Kind::Begin => Role::Begin,
            Kind::End => Role::End,
            _ => Role::Other,
        };
        let step = Step::Record(form, bytes.to_vec(), place);
        shorts.push(time_ns, thread, step, role, min_slice_ns(&self.options.min_slice_us, class));
        self.let_go(time_ns)
    }

    /// Something else than a record: takes its turn behind the records that are held back.
    fn pass(&mut self, time_ns: u64, thread: usize, step: Step) -> Result<(), Error> {
        match &mut self.shorts {
            Some(shorts) => {
                shorts.push(time_ns, thread, step, Role::Other, 0);
                self.let_go(time_ns)
            }
            None => self.perform(time_ns, thread, step),
        }
    }

    /// Does what was held back and is decided as seen at `now_ns`.
    fn let_go(&mut self, now_ns: u64) -> Result<(), Error> {
        while let Some(waiting) = self.shorts.as_mut().and_then(|shorts| shorts.pop(now_ns)) {
            match waiting.what {
                Step::Record(_, _, place) if waiting.is_short => {
                    self.summary.too_short += 1;
                    self.note_written(place);
                }
                step => self.perform(waiting.time_ns, waiting.thread, step)?,
            }
        }
        Ok(())
    }

    fn perform(&mut self, time_ns: u64, thread: usize, step: Step) -> Result<(), Error> {
        match step {
            Step::Record(form, bytes, place) => {
                let pid = self.threads.all().get(thread).map_or(0, |thread| thread.pid);
                let mut scratch = Vec::new();
                match parse(form, &bytes, pid, &mut scratch) {
                    Some(record) => self.write(time_ns, thread, &record, place),
                    None => Ok(()),
                }
            }
            Step::Segment(name, is_gap) => {
                if is_gap {
                    self.close(thread, time_ns, "before lost records")?;
                }
                let (threads, redactor) = (&mut self.threads, &mut self.redactor);
                if let Some(thread) = threads.get_mut(thread) {
                    thread.show(&name, |name| match redactor {
                        Some(redactor) => redactor.thread_name(name),
                        None => name,
                    });
                }
                Ok(())
            }
            Step::ThreadEnd(place) => {
                self.note_written(place);
                self.close(thread, time_ns, "at the end of the thread")
            }
            Step::CaptureEnd => self.close(thread, time_ns, "at the end of the capture"),
        }
    }

    fn write(
        &mut self,
        time_ns: u64,
        thread: usize,
        record: &Record<'_>,
        place: Option<PoolPlace>,
    ) -> Result<(), Error> {
        self.note_written(place);
        if self.options.catapult_only && !record.kind().is_known_to_catapult() {
            self.summary.left_out += 1;
            return Ok(());
        }
        let names = match &mut self.redactor {
            Some(redactor) => match redactor.apply(thread, record) {
                Some(names) => names,
                None => return Ok(()),
            },
            None => [None, None],
        };
        let [track, name] = names.each_ref().map(|name| name.as_deref().map(str::as_bytes));
        let record = &record.with_names(track, name);
        let Fate::Write(pid) = self.repair.apply(thread, record) else { return Ok(()) };
        self.summary.lines += 1;
        let Some(sink) = &mut self.sink else { return Ok(()) };
        let prefix = self.threads.all().get(thread).map_or(&[][..], |thread| thread.prefix());
        line::push_line(sink.buffer(), prefix, time_ns, self.options.precision, |out| {
            line::push_record(out, record, pid);
        });
        sink.line_done()
    }

    /// Writes the ends that a thread did not, and an instant that says so.
    fn close(&mut self, thread: usize, time_ns: u64, when: &str) -> Result<(), Error> {
        if let Some(redactor) = &mut self.redactor {
            redactor.close(thread);
        }
        let pids = self.repair.close(thread);
        self.summary.lines += pids.len() as u64;
        let (Some(sink), Some(&pid)) = (&mut self.sink, pids.first()) else { return Ok(()) };
        let precision: Precision = self.options.precision;
        let prefix = self.threads.all().get(thread).map_or(&[][..], |thread| thread.prefix());
        let out = sink.buffer();
        if !self.options.catapult_only {
            let name = format!("tracetee: {} open {when}", pids.len());
            let record = Record::Instant { pid, name: name.as_bytes() };
            line::push_line(out, prefix, time_ns, precision, |out| {
                line::push_record(out, &record, pid);
            });
        }
        for pid in pids {
            line::push_line(out, prefix, time_ns, precision, |out| {
                line::push_record(out, &Record::End { pid: None }, pid);
            });
        }
        sink.line_done()
    }

    fn count(&mut self, thread: usize, kind: Kind) {
        if let Some(count) = self.by_kind.get_mut(kind.index()) {
            *count += 1;
        }
        if self.by_thread.len() <= thread {
            self.by_thread.resize(thread + 1, 0);
        }
        if let Some(count) = self.by_thread.get_mut(thread) {
            *count += 1;
        }
    }

    /// `None` where no account of places is kept.
    fn place_of(
        &mut self,
        sources: &[Source<'_>],
        thread: usize,
        place: Place,
    ) -> Option<PoolPlace> {
        if !self.wants_places {
            return None;
        }
        let process = self.threads.all().get(thread).map_or(0, |thread| thread.process);
        let place = sources.get(process)?.snapshot.place(place.block, place.next)?;
        self.taken.push(place);
        Some(place)
    }

    fn note_written(&mut self, place: Option<PoolPlace>) {
        self.written.extend(place);
    }

    /// Writes out what is formatted, so far. Gives the bytes that the file holds then.
    pub(crate) fn flush(&mut self) -> Result<u64, Error> {
        self.sink.as_mut().map_or(Ok(0), Sink::flush_all)
    }

    /// What it has come to so far, with what the pools know of losses.
    pub(crate) fn summary(&mut self, sources: &[Source<'_>]) -> Summary {
        let mut summary = self.summary.clone();
        summary.set_records(&self.by_kind);
        summary.stray_ends = self.repair.stray_ends;
        summary.closed_sections = self.repair.closed_sections;
        if let Some(redactor) = &self.redactor {
            summary.redacted = redactor.changed;
            summary.redacted_out = redactor.dropped;
        }
        summary.processes = sources.len() as u64;
        let mut threads: Vec<ThreadSummary> = self
            .threads
            .all()
            .iter()
            .enumerate()
            .map(|(index, thread)| ThreadSummary {
                pid: thread.pid,
                tid: thread.tid,
                name: thread.name(),
                records: self.by_thread.get(index).copied().unwrap_or(0),
                ..ThreadSummary::default()
            })
            .collect();
        for (process, source) in sources.iter().enumerate() {
            summary.damaged_blocks += source.snapshot.damaged;
            summary.clock_jumps += source.snapshot.clock_jumps();
            summary.counter_clock |= source.reader.uses_counter();
            for facts in source.reader.threads() {
                summary.count_dropped(&facts.dropped);
                summary.overwritten += facts.overwritten;
                let dropped: u64 = facts.dropped.iter().sum();
                if dropped + facts.overwritten == 0 {
                    continue;
                }
                let known = self.threads.all().iter().position(|thread| {
                    thread.process == process && thread.incarnation == facts.incarnation
                });
                match known.and_then(|index| threads.get_mut(index)) {
                    Some(thread) => {
                        thread.dropped += dropped;
                        thread.overwritten += facts.overwritten;
                    }
                    None => threads.push(ThreadSummary {
                        pid: source.reader.pid(),
                        tid: facts.tid,
                        name: super::threads::name_of(&facts.name, facts.tid),
                        records: 0,
                        overwritten: facts.overwritten,
                        dropped,
                    }),
                }
            }
        }
        threads.retain(|thread| thread.records + thread.dropped + thread.overwritten > 0);
        if let Some(redactor) = &mut self.redactor {
            for thread in &mut threads {
                thread.name = redactor.thread_name(std::mem::take(&mut thread.name));
            }
        }
        summary.threads = threads;
        let start = self.first_ns.unwrap_or(0);
        summary.start_boot_ns = start;
        summary.duration_ns = self.last_ns.saturating_sub(start);
        summary
    }

    /// Gives the file its name. Returns the bytes of the text and of the file.
    pub(crate) fn finish(self) -> Result<(u64, u64), Error> {
        self.sink.map_or(Ok((0, 0)), Sink::finish)
    }

    /// As [`Trace::finish`], with all that it came to.
    pub(crate) fn finish_with(mut self, sources: &[Source<'_>]) -> Result<Summary, Error> {
        let mut summary = self.summary(sources);
        // Known at the end only. Comments may stand anywhere.
        let dropped: u64 = summary.dropped.values().sum();
        if let (Some(sink), false, 1..) = (&mut self.sink, self.comments.is_empty(), dropped) {
            let line = format!("# tracetee: {{\"dropped\":{dropped}}}\n");
            sink.buffer().extend_from_slice(line.as_bytes());
        }
        (summary.text_bytes, summary.file_bytes) = self.finish()?;
        Ok(summary)
    }
}

/// The shortest section of a class of threads that is kept.
const fn min_slice_ns(slices: &MinSlice, class: Class) -> u64 {
    1000 * match class {
        Class::Main => slices.main,
        Class::Render => slices.render,
        Class::Other => slices.other,
    }
}

fn longest_min_slice_ns(slices: &MinSlice) -> u64 {
    1000 * slices.main.max(slices.render).max(slices.other)
}

fn parse<'a>(
    form: Form,
    bytes: &'a [u8],
    pid: i32,
    scratch: &'a mut Vec<u8>,
) -> Option<Record<'a>> {
    match form {
        Form::Text => Record::parse(bytes),
        Form::Packed => {
            *scratch = Packed::parse(bytes)?.to_text(pid.unsigned_abs());
            Record::parse(scratch)
        }
        Form::Note => None,
    }
}
