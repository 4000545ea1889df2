//! The end of a record's path: redacts it, keeps its thread's sections balanced, writes its line.
//!
//! Used by [`crate::trace`], which decides which records arrive in which order.

use crate::balance::{Balance, Fate};
use crate::comment;
use crate::line;
use crate::redact::Redactor;
use crate::sink::Sink;
use crate::threads::{Class, Thread};
use crate::{Error, Precision, TextOptions, rules};
use tracetee_protocol::notes::{self, FRAME_COUNTERS, FRAME_MAIN, FRAME_RENDER};
use tracetee_recorder::counters::Counters;
use tracetee_recorder::details::Details;
use tracetee_recorder::record::Record;

/// The writer.
pub(crate) struct Writer {
    /// `None`: records are only counted, not written.
    pub(crate) sink: Option<Sink>,
    pub(crate) balance: Balance,
    pub(crate) redactor: Option<Redactor>,
    /// Lines that are records or closing ends.
    pub(crate) lines: u64,
    precision: Precision,
    has_header: bool,
    /// The last value of each counter of frames, by thread.
    frame_counters: Vec<[Option<u64>; FRAME_COUNTERS.len()]>,
}

impl Writer {
    pub(crate) fn new(sink: Option<Sink>, options: &TextOptions) -> Result<Self, Error> {
        Ok(Self {
            sink,
            balance: Balance::default(),
            redactor: rules(options)?.map(Redactor::new),
            lines: 0,
            precision: options.precision,
            has_header: false,
            frame_counters: Vec::new(),
        })
    }

    /// The file has its header: this writer continues after a streamed part.
    pub(crate) const fn goes_on(&mut self) {
        self.has_header = true;
    }

    /// Writes the header, once: `comments` are whole lines.
    pub(crate) fn header(
        &mut self,
        pid: i32,
        (boot_ns, real_ns): (u64, u64),
        comments: &[String],
        is_recovered: bool,
    ) -> Result<(), Error> {
        if std::mem::replace(&mut self.has_header, true) {
            return Ok(());
        }
        let Some(sink) = &mut self.sink else { return Ok(()) };
        sink.buffer().extend_from_slice(notes::HEADER.as_bytes());
        let prefix = line::prefix("tracetee", pid, pid);
        let mut payloads = vec![
            "trace_event_clock_sync: parent_ts=0".to_owned(),
            format!("trace_event_clock_sync: realtime_ts={}", real_ns / 1_000_000),
        ];
        for comment in comments {
            sink.buffer().extend_from_slice(comment.as_bytes());
        }
        if is_recovered {
            let (comment, note) = (notes::COMMENT, notes::RECOVERED);
            let line = format!("{comment}{note}, the process did not stop its capture\n");
            sink.buffer().extend_from_slice(line.as_bytes());
            payloads.push(format!("I|{pid}|{}{}", notes::PREFIX, notes::RECOVERED));
        }
        for payload in payloads {
            let push = |out: &mut Vec<u8>| out.extend_from_slice(payload.as_bytes());
            line::push_line(sink.buffer(), &prefix, boot_ns, self.precision, push);
        }
        sink.header_done()
    }

    /// Writes a record of thread number `index`, and its details in a comment before it.
    pub(crate) fn record(
        &mut self,
        time_ns: u64,
        index: usize,
        thread: Option<&Thread>,
        record: &Record<'_>,
        details: Details<'_>,
    ) -> Result<(), Error> {
        let is_sampler = thread.is_some_and(Thread::is_sampler);
        if is_sampler && matches!(record, Record::Begin { .. } | Record::End { .. }) {
            return Ok(());
        }
        let names = match &mut self.redactor {
            Some(redactor) => match redactor.apply(index, record) {
                Some(names) => names,
                None => return Ok(()),
            },
            None => [None, None],
        };
        let has_other_name = names.iter().any(Option::is_some);
        let [track, name] = names.each_ref().map(|name| name.as_deref().map(str::as_bytes));
        let record = &record.with_names(track, name);
        let Fate::Write(pid) = self.balance.apply(index, record) else { return Ok(()) };
        self.lines += 1;
        let Some(sink) = &mut self.sink else { return Ok(()) };
        if !details.is_empty() {
            let is_changed =
                comment::push_comment(sink.buffer(), details, &mut self.redactor, is_sampler);
            if let Some(redactor) = &mut self.redactor {
                redactor.changed += u64::from(is_changed && !has_other_name);
            }
        }
        let prefix = thread.map_or(&[][..], Thread::prefix);
        line::push_line(sink.buffer(), prefix, time_ns, self.precision, |out| {
            line::push_record(out, record, pid);
        });
        sink.line_done()
    }

    /// Writes a thread's counters, as far as they differ from the last ones: their names are the agent's own, so no rule
    /// of redaction is asked. The time on a processor is always there.
    pub(crate) fn counters(
        &mut self,
        time_ns: u64,
        index: usize,
        thread: Option<&Thread>,
        counters: &Counters,
    ) -> Result<(), Error> {
        let (Some(sink), Some(thread)) = (&mut self.sink, thread) else { return Ok(()) };
        if self.frame_counters.len() <= index {
            self.frame_counters.resize(index + 1, Default::default());
        }
        let last = self.frame_counters.get_mut(index).map(|last| last.iter_mut());
        let values = [
            Some(counters.running_ns),
            counters.runnable_ns,
            Some(counters.minor_faults.into()),
            Some(counters.major_faults.into()),
            Some(counters.waits.into()),
            Some(counters.preemptions.into()),
        ];
        let role = if thread.class() == Class::Main { FRAME_MAIN } else { FRAME_RENDER };
        for ((what, value), last) in
            FRAME_COUNTERS.iter().zip(values).zip(last.into_iter().flatten())
        {
            if value.is_none() || *what != FRAME_COUNTERS[0] && value == *last {
                continue;
            }
            *last = value;
            let name = format!("{role}{what}");
            let record = Record::Counter {
                pid: thread.pid.unsigned_abs(),
                name: name.as_bytes(),
                value: i64::try_from(value.unwrap_or(0)).unwrap_or(i64::MAX),
                group: None,
            };
            line::push_line(sink.buffer(), thread.prefix(), time_ns, self.precision, |out| {
                line::push_record(out, &record, 0);
            });
            sink.line_done()?;
        }
        Ok(())
    }

    /// Writes the ends that a thread did not, and an instant that says so.
    pub(crate) fn close(
        &mut self,
        time_ns: u64,
        index: usize,
        thread: Option<&Thread>,
        when: &str,
    ) -> Result<(), Error> {
        if let Some(redactor) = &mut self.redactor {
            redactor.close(index);
        }
        let pids = self.balance.close(index);
        self.lines += pids.len() as u64;
        let (Some(sink), Some(&pid)) = (&mut self.sink, pids.first()) else { return Ok(()) };
        let prefix = thread.map_or(&[][..], Thread::prefix);
        let name = format!("{}{} open {when}", notes::PREFIX, pids.len());
        let record = Record::Instant { pid, name: name.as_bytes() };
        line::push_line(sink.buffer(), prefix, time_ns, self.precision, |out| {
            line::push_record(out, &record, pid);
        });
        sink.line_done()?;
        for pid in pids {
            line::push_line(sink.buffer(), prefix, time_ns, self.precision, |out| {
                line::push_record(out, &Record::End { pid: None }, pid);
            });
            sink.line_done()?;
        }
        Ok(())
    }

    /// A thread's name, as the rules leave it.
    pub(crate) fn thread_name(&mut self, name: String) -> String {
        match &mut self.redactor {
            Some(redactor) => redactor.thread_name(name),
            None => name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_a_thread_with_any_number_of_open_sections_are_in_frames_that_readers_take() {
        const SECTIONS: usize = 20_000;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.ftrace.zst");
        let mut writer =
            Writer::new(Some(Sink::create(&path).unwrap()), &TextOptions::default()).unwrap();
        for _ in 0..SECTIONS {
            let begin = Record::Begin { pid: 7, name: b"n" };
            writer.record(1, 0, None, &begin, Details::default()).unwrap();
        }
        writer.close(2, 0, None, "at the end").unwrap();
        writer.sink.unwrap().finish().unwrap();

        let (file, mut rest, mut ends) = (std::fs::read(&path).unwrap(), 0, 0);
        while rest < file.len() {
            let bytes = tracetee_frames::frame_bytes(&file[rest..]).unwrap();
            let text = zstd::stream::decode_all(&file[rest..rest + bytes]).unwrap();
            ends += String::from_utf8(text)
                .unwrap()
                .lines()
                .filter(|line| line.contains(" E|7"))
                .count();
            rest += bytes;
        }
        assert_eq!(ends, SECTIONS);
    }
}
