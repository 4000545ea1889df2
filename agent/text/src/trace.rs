//! A trace being written: takes events in order of time, filters, repairs, formats.
//!
//! It outlives the snapshots that events come from, so that a trace can be streamed in parts.

use crate::complete::{self, Bounds};
use crate::merge::{End, Event, Merge, Source};
use crate::min_duration::{MinDuration, Role, longest_ns, min_ns};
use crate::positions::Positions;
use crate::sink::Sink;
use crate::summary::Tally;
use crate::threads::{Class, Threads};
use crate::time_window::{Early, Phase, Span, TimeWindow};
use crate::writer::Writer;
use crate::{Error, TextOptions};
use std::path::Path;
use tracetee_protocol::{CaptureMeta, Summary, notes};
use tracetee_recorder::counters::Counters;
use tracetee_recorder::details::Details;
use tracetee_recorder::layout::{Form, NAME_BYTES};
use tracetee_recorder::progress::PoolPosition;
use tracetee_recorder::reader::PoolReader;
use tracetee_recorder::record::{Kind, Record};
use tracetee_recorder::rich::{COMPLETE, Rich, remove_cpu};
use tracetee_recorder::stored::parse_stored;

/// A step of a thread; it owns its memory, so that the snapshot can be freed.
#[derive(Debug)]
enum Step {
    Record(Form, Vec<u8>, Option<PoolPosition>),
    /// The thread's name from here on, and whether records are missing before.
    Segment([u8; NAME_BYTES], bool),
    ThreadEnd(Option<PoolPosition>),
    CaptureEnd,
    /// A complete event, whose halves came earlier.
    Complete(Option<PoolPosition>),
}

fn comment_line(text: &str) -> String {
    format!("# {}\n", text.replace(['\n', '\r'], " "))
}

/// The trace.
pub struct Trace {
    writer: Writer,
    options: TextOptions,
    threads: Threads,
    min_duration: Option<MinDuration<Step>>,
    window: Option<TimeWindow>,
    /// Lines of the header that say what this trace is.
    comments: Vec<String>,
    tally: Tally,
    positions: Positions,
    /// Number of complete events that became asynchronous slices.
    asyncs: i64,
}

impl Trace {
    /// A trace at `path`; compressed when it ends in `.zst`.
    ///
    /// # Errors
    /// [`Error::Rule`] for a wrong rule, [`Error::Io`] when the file cannot be made.
    pub fn create(path: &Path, options: &TextOptions) -> Result<Self, Error> {
        // The file is created last, so that invalid rules leave none behind.
        let mut trace = Self::with(None, options)?;
        trace.writer.sink = Some(Sink::create(path)?);
        Ok(trace)
    }

    /// Counts only.
    pub(crate) fn counting(options: &TextOptions) -> Result<Self, Error> {
        Self::with(None, options)
    }

    pub(crate) fn with(sink: Option<Sink>, options: &TextOptions) -> Result<Self, Error> {
        let longest_ns = longest_ns(&options.min_slice_us);
        Ok(Self {
            writer: Writer::new(sink, options)?,
            options: options.clone(),
            threads: Threads::default(),
            min_duration: (longest_ns > 0).then(|| MinDuration::new(longest_ns)),
            window: None,
            comments: Vec::new(),
            tally: Tally::default(),
            positions: Positions::default(),
            asyncs: 0,
        })
    }

    /// Writes only events in `span`.
    pub(crate) fn cut_to(&mut self, span: Span) {
        self.window = Some(TimeWindow::new(span));
    }

    /// Puts a line into the header.
    pub(crate) fn comment(&mut self, text: &str) {
        self.comments.push(comment_line(text));
    }

    /// Writes lines at the current position: comments may be anywhere.
    pub(crate) fn write_comments(&mut self, comments: &[String]) {
        if let Some(sink) = &mut self.writer.sink {
            comments.iter().for_each(|text| sink.buffer().extend(comment_line(text).bytes()));
        }
    }

    /// Writes the header of a trace without records.
    pub(crate) fn write_only_header(&mut self, pid: i32, at: (u64, u64)) -> Result<(), Error> {
        self.writer.header(pid, at, &self.comments, false)
    }

    /// Tracks the taken and written records, and keeps the file on a failure.
    pub fn keep_places(&mut self) {
        self.positions.keep();
        if let Some(sink) = &mut self.writer.sink {
            sink.keep();
        }
    }

    /// Passes on the text of each part of the file, whole lines, after it was written.
    pub fn pass_on(&mut self, listener: fn(&[u8])) {
        if let Some(sink) = &mut self.writer.sink {
            sink.pass_on(listener);
        }
    }

    /// Returns the ends of the records that were taken from the sources since the last call, with the source's index.
    pub fn take_taken(&mut self) -> Vec<(usize, PoolPosition)> {
        self.positions.drain_taken()
    }

    /// Returns the ends of the records that were written to the trace since the last call.
    pub fn take_written(&mut self) -> Vec<PoolPosition> {
        self.positions.drain_written()
    }

    /// The number of sections that a thread of the first source has open where the trace ends now.
    pub fn open_sections(&self, incarnation: u32) -> u32 {
        let index = self.threads.find(0, incarnation);
        let depth = index.map_or(0, |index| self.writer.balance.depth(index));
        u32::try_from(depth).unwrap_or(u32::MAX)
    }

    /// Continues after a streamed part: threads have open sections.
    pub(crate) fn go_on_behind(&mut self, reader: &PoolReader<'_>) {
        self.writer.goes_on();
        for facts in reader.threads().iter().filter(|facts| facts.open > 0) {
            let (incarnation, tid) = (facts.incarnation, facts.tid);
            let thread = self.threads.add_named(0, reader.pid(), incarnation, tid, facts.name);
            self.writer.balance.reopen(thread, facts.open, reader.pid().unsigned_abs());
        }
    }

    /// Says that the process did not end this capture itself.
    pub(crate) fn mark_recovered(&mut self) {
        self.tally.summary.recovered = true;
    }

    fn write_header(&mut self, sources: &[Source<'_>]) -> Result<(), Error> {
        let Some(first) =
            sources.iter().map(|source| source.reader).min_by_key(PoolReader::start_boot_ns)
        else {
            return Ok(());
        };
        let start_ns = first.start_boot_ns();
        let window_ns = self.window.as_ref().map_or(0, |window| window.span.from_ns);
        let boot_ns = start_ns.max(window_ns);
        let real_ns = first.start_real_ns().saturating_add(boot_ns - start_ns);
        self.tally.begin_at(boot_ns);
        let is_recovered = self.tally.summary.recovered;
        self.writer.header(first.pid(), (boot_ns, real_ns), &self.comments, is_recovered)
    }

    /// Takes all events of `sources` up to `limit_ns`; with `u64::MAX` the pools' ends too, where
    /// open sections are closed.
    ///
    /// # Errors
    /// [`Error::Io`] when the trace cannot be written.
    pub fn take(&mut self, sources: &[Source<'_>], limit_ns: u64) -> Result<(), Error> {
        self.write_header(sources)?;
        let bounds = Bounds {
            limit_ns,
            last_ns: self.tally.last_ns,
            span: self.window.as_ref().map(|window| window.span),
        };
        let summary = &mut self.tally.summary;
        let parts = complete::plan(sources, &self.threads, bounds, &mut self.asyncs, summary);
        let mut merge = Merge::new(sources, &parts, &mut self.threads);
        while let Some(event) = merge.next_until(limit_ns) {
            // A later part's times may be some ns before the last of the earlier part.
            let mut time_ns = event.time_ns().max(self.tally.last_ns);
            if let Event::Record { thread, form: Form::Rich, bytes, end, .. } = event
                && bytes.first() == Some(&COMPLETE)
            {
                let is_whole = matches!(Rich::parse(bytes), Some(Rich::Complete(_)));
                self.tally.summary.malformed += u64::from(!is_whole);
                let position = self.position_of(sources, thread, end);
                self.pass(time_ns, thread, Step::Complete(position))?;
                continue;
            }
            let mut phase = Phase::Inside;
            if let Some(window) = &mut self.window {
                if let Event::Record { thread, bytes, .. } = event {
                    // Text and packed records begin with their letter.
                    let kind = bytes.first().and_then(|&letter| Kind::from_letter(letter));
                    phase = window.phase(time_ns, thread, kind);
                } else if time_ns < window.span.from_ns {
                    phase = Phase::Before;
                }
                if phase == Phase::After {
                    continue;
                }
                time_ns = match event {
                    // The recording continues after the span, or has ended in it.
                    Event::End { .. } => window.span.to_ns,
                    _ => time_ns.min(window.span.to_ns),
                };
            }
            self.tally.last_ns = time_ns;
            if phase == Phase::Inside {
                self.begin_span()?;
            }
            match event {
                Event::Record { thread, form, bytes, end, .. } => {
                    let position = self.position_of(sources, thread, end);
                    match &mut self.window {
                        Some(window) if phase == Phase::Before => {
                            let mut scratch = Vec::new();
                            if let Some((record, details)) =
                                parse_stored(form, bytes, 0, &mut scratch)
                            {
                                let bytes = bytes.to_vec();
                                let early = Early { time_ns, thread, form, bytes, position };
                                window.look_at(&record, details, early);
                            }
                        }
                        window => {
                            let stack_names = window.as_mut().map(|window| &mut window.stack_names);
                            let names = stack_names.map(|names| names.missing(thread, form, bytes));
                            for names in names.unwrap_or_default() {
                                self.record(time_ns, thread, Form::Rich, &names, None)?;
                            }
                            self.record(time_ns, thread, form, bytes, position)?;
                        }
                    }
                }
                Event::Segment { thread, segment, .. } => {
                    let Some(known) = self.threads.get_mut(thread) else { continue };
                    let is_gap = known.enter(&segment);
                    self.tally.summary.gaps += u64::from(is_gap);
                    self.ends_open(is_gap.then_some(thread));
                    self.pass(time_ns, thread, Step::Segment(segment.name, is_gap))?;
                }
                Event::ThreadEnd { thread, end, .. } => {
                    let position = self.position_of(sources, thread, Some(end));
                    self.ends_open([thread]);
                    self.pass(time_ns, thread, Step::ThreadEnd(position))?;
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

    /// Decides about these threads' open sections now, without later records.
    fn ends_open(&mut self, threads: impl IntoIterator<Item = usize>) {
        for thread in threads {
            if let Some(min_duration) = &mut self.min_duration {
                min_duration.close(thread);
            }
            if let Some(window) = &mut self.window {
                window.forget(thread);
            }
        }
    }

    /// With the first event of the span: begins the open sections.
    fn begin_span(&mut self) -> Result<(), Error> {
        let Some(window) = &mut self.window else { return Ok(()) };
        let from_ns = window.span.from_ns;
        for Early { thread, form, mut bytes, position, .. } in window.begin() {
            // The processor time belongs to the original begin, not to the begin of the span.
            if form == Form::Rich {
                remove_cpu(&mut bytes);
            }
            self.record(from_ns, thread, form, &bytes, position)?;
        }
        Ok(())
    }

    /// Processes a record: counts it, and omits it if the options say so.
    fn record(
        &mut self,
        time_ns: u64,
        thread: usize,
        form: Form,
        bytes: &[u8],
        position: Option<PoolPosition>,
    ) -> Result<(), Error> {
        let Some(known) = self.threads.all().get(thread) else { return Ok(()) };
        let class = known.class();
        if form == Form::Note && Counters::from_bytes(bytes).is_some() {
            if self.options.main_thread_only && class != Class::Main {
                self.positions.note_written(position);
                return Ok(());
            }
            return self.pass(time_ns, thread, Step::Record(form, bytes.to_vec(), position));
        }
        let mut scratch = Vec::new();
        let pid = known.pid.unsigned_abs();
        let Some((record, details)) = parse_stored(form, bytes, pid, &mut scratch) else {
            self.tally.summary.malformed += 1;
            self.positions.note_written(position);
            return Ok(());
        };
        self.tally.count(thread, record.kind());
        if self.options.main_thread_only && class != Class::Main {
            self.tally.summary.other_threads += 1;
            self.positions.note_written(position);
            return Ok(());
        }
        let Some(min_duration) = &mut self.min_duration else {
            return self.write(time_ns, thread, &record, details, position);
        };
        let role = match record.kind() {
            Kind::Begin => Role::Begin,
            Kind::End => Role::End,
            _ => Role::Other,
        };
        let step = Step::Record(form, bytes.to_vec(), position);
        min_duration.push(time_ns, thread, step, role, min_ns(&self.options.min_slice_us, class));
        self.let_go(time_ns)
    }

    /// An event that is not a record: waits for the records that are held back.
    fn pass(&mut self, time_ns: u64, thread: usize, step: Step) -> Result<(), Error> {
        match &mut self.min_duration {
            Some(min_duration) => {
                min_duration.push(time_ns, thread, step, Role::Other, 0);
                self.let_go(time_ns)
            }
            None => self.perform(time_ns, thread, step),
        }
    }

    /// Emits buffered steps whose fate is known at `now_ns`.
    fn let_go(&mut self, now_ns: u64) -> Result<(), Error> {
        while let Some(waiting) =
            self.min_duration.as_mut().and_then(|min_duration| min_duration.pop(now_ns))
        {
            match waiting.what {
                Step::Record(_, _, position) if waiting.is_short => {
                    self.tally.summary.too_short += 1;
                    self.positions.note_written(position);
                }
                step => self.perform(waiting.time_ns, waiting.thread, step)?,
            }
        }
        Ok(())
    }

    fn perform(&mut self, time_ns: u64, thread: usize, step: Step) -> Result<(), Error> {
        match step {
            Step::Record(Form::Note, bytes, position) => {
                self.positions.note_written(position);
                let Some(counters) = Counters::from_bytes(&bytes) else { return Ok(()) };
                self.tally.summary.frame_counters += 1;
                self.writer.counters(time_ns, thread, self.threads.all().get(thread), &counters)
            }
            Step::Record(form, bytes, position) => {
                let pid =
                    self.threads.all().get(thread).map_or(0, |thread| thread.pid.unsigned_abs());
                let mut scratch = Vec::new();
                parse_stored(form, &bytes, pid, &mut scratch).map_or(Ok(()), |(record, details)| {
                    self.write(time_ns, thread, &record, details, position)
                })
            }
            Step::Segment(name, is_gap) => {
                if is_gap {
                    self.close(thread, time_ns, "before lost records")?;
                }
                if let Some(thread) = self.threads.get_mut(thread) {
                    thread.show(&name, |name| self.writer.thread_name(name));
                }
                Ok(())
            }
            Step::ThreadEnd(position) => {
                self.positions.note_written(position);
                self.close(thread, time_ns, "at the end of the thread")
            }
            Step::CaptureEnd => self.close(thread, time_ns, "at the end of the capture"),
            Step::Complete(position) => {
                self.positions.note_written(position);
                Ok(())
            }
        }
    }

    fn write(
        &mut self,
        time_ns: u64,
        thread: usize,
        record: &Record<'_>,
        details: Details<'_>,
        position: Option<PoolPosition>,
    ) -> Result<(), Error> {
        self.positions.note_written(position);
        self.writer.record(time_ns, thread, self.threads.all().get(thread), record, details)
    }

    fn close(&mut self, thread: usize, time_ns: u64, when: &str) -> Result<(), Error> {
        self.writer.close(time_ns, thread, self.threads.all().get(thread), when)
    }

    fn position_of(
        &mut self,
        sources: &[Source<'_>],
        thread: usize,
        end: Option<End>,
    ) -> Option<PoolPosition> {
        let process = self.threads.all().get(thread).map_or(0, |thread| thread.process);
        self.positions.take(sources, process, end?)
    }

    /// Flushes the text formatted so far. Returns the resulting size of the file.
    ///
    /// # Errors
    /// [`Error::Io`] when the trace cannot be written.
    pub fn flush(&mut self) -> Result<u64, Error> {
        self.writer.sink.as_mut().map_or(Ok(0), Sink::flush_all)
    }

    /// The counts so far, with the losses in the pools.
    pub fn summary(&mut self, sources: &[Source<'_>]) -> Summary {
        self.tally.complete(&mut self.writer, &self.threads, sources)
    }

    /// Gives the file its name. Returns the bytes of the text and of the file.
    ///
    /// # Errors
    /// [`Error::Io`] when the trace cannot be written.
    pub fn finish(self) -> Result<(u64, u64), Error> {
        self.writer.sink.map_or(Ok((0, 0)), Sink::finish)
    }

    /// Finishes like [`Trace::finish`], and returns the summary.
    pub(crate) fn finish_with(mut self, sources: &[Source<'_>]) -> Result<Summary, Error> {
        let mut summary = self.summary(sources);
        // Known at the end only. Comments may stand anywhere.
        let dropped: u64 = summary.dropped.values().sum();
        if let (Some(sink), false, 1..) = (&mut self.writer.sink, self.comments.is_empty(), dropped)
        {
            let meta = CaptureMeta { dropped: Some(dropped), ..CaptureMeta::default() };
            let line = format!("{}{}\n", notes::COMMENT, meta.to_json());
            sink.buffer().extend_from_slice(line.as_bytes());
        }
        (summary.text_bytes, summary.file_bytes) = self.finish()?;
        Ok(summary)
    }
}
