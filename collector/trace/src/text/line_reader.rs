//! The meaningful lines of a text, for passthrough, and an outline of its threads.

use super::line::{self, Line};
use super::sections::{Names, Sections};
use super::{MAX_LINE_BYTES, marker, sched};
use crate::error::Error;
use crate::model::Losses;
use crate::quoted;
use std::collections::HashMap;
use std::io::{self, BufRead, Read};
use tracetee_protocol::notes;

/// Process and name of a thread.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ThreadOutline {
    /// Process id.
    pub pid: Option<u32>,
    /// True if only a marker names the process.
    pub is_guess: bool,
    /// First name.
    pub name: Option<Box<[u8]>>,
}

/// Threads and processes of a text.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Outline {
    /// Threads by id.
    pub threads: HashMap<u32, ThreadOutline>,
    /// True if processes are named, even of threads without events.
    pub has_processes: bool,
    /// Number of events.
    pub events: u64,
    /// Number of header lines of a capture.
    pub abouts: u64,
    /// Errors in the text; counts lines only.
    pub losses: Losses,
}

impl Names for Outline {
    fn process(&mut self, _pid: u32, _name: &[u8]) {
        self.has_processes = true;
    }

    fn thread(&mut self, tid: u32, pid: u32, name: &[u8]) {
        let thread = self.threads.entry(tid).or_default();
        thread.pid = Some(pid);
        thread.name.get_or_insert_with(|| name.into());
    }
}

impl Outline {
    /// Adds threads of another text that this one lacks.
    pub fn add(&mut self, other: &Self) {
        for (&tid, known) in &other.threads {
            let thread = self.threads.entry(tid).or_default();
            if thread.pid.is_none() || thread.is_guess && known.pid.is_some() && !known.is_guess {
                (thread.pid, thread.is_guess) = (known.pid, known.is_guess);
            }
            let is_same = known.pid.is_none() || known.pid == thread.pid;
            if thread.name.is_none() && is_same {
                thread.name.clone_from(&known.name);
            }
        }
    }

    /// Reads a text to its end.
    ///
    /// # Errors
    /// As [`super::read`].
    pub fn read<R: BufRead>(text: R) -> Result<Self, Error> {
        let mut outline = Self::default();
        let mut guessed: HashMap<u32, u32> = HashMap::new();
        let mut comms: HashMap<u32, Box<[u8]>> = HashMap::new();
        let mut sure: HashMap<u32, u32> = HashMap::new();
        let mut has_lines = false;
        outline.losses = parts_of(text, &mut outline, |outline, part| {
            has_lines = true;
            let Part::Event(line) = part else {
                outline.abouts += u64::from(matches!(part, Part::About(_)));
                return Ok(());
            };
            outline.events += 1;
            for (tid, name) in sched::names(&line) {
                if comms.get(&tid).is_none_or(|known| **known != *name) {
                    comms.insert(tid, name.into());
                }
            }
            let is_named = !matches!(line.task, b"" | b"<...>");
            let thread = outline.threads.entry(line.tid).or_default();
            if let Some(pid) = line.tgid {
                // The dump's thread belongs to another process: its id was reused.
                if sure.insert(line.tid, pid).is_none()
                    && thread.pid.is_some_and(|dumped| dumped != pid)
                {
                    thread.name = None;
                }
                thread.pid = line.tgid;
            }
            if is_named && thread.name.is_none() {
                thread.name = Some(line.task.into());
            }
            if thread.pid.is_none()
                && let Ok(marker::Marker::Begin { pid, .. }) = marker::parse(super::payload(&line))
            {
                guessed.insert(line.tid, pid);
            }
            Ok(())
        })?;
        for (tid, pid) in guessed {
            let thread = outline.threads.entry(tid).or_default();
            thread.is_guess |= thread.pid.is_none();
            thread.pid.get_or_insert(pid);
        }
        for (tid, name) in comms {
            if let Some(thread) = outline.threads.get_mut(&tid) {
                thread.name.get_or_insert(name);
            }
        }
        if !has_lines && !outline.has_processes {
            let first = outline.losses.shown.first();
            return Err(Error::NoTrace(first.map_or_else(
                || "no line of it is a trace line".to_owned(),
                |bad| format!("line {}: {} ({})", bad.number, bad.why, quoted(&bad.text)),
            )));
        }
        Ok(outline)
    }
}

/// A meaningful line.
#[derive(Debug)]
pub enum Part<'a> {
    /// The agent's metadata of a capture.
    About(&'a [u8]),
    /// Details of the event that follows.
    Details(&'a [u8]),
    /// An event.
    Event(Line<'a>),
}

impl Names for () {
    fn process(&mut self, _: u32, _: &[u8]) {}
    fn thread(&mut self, _: u32, _: u32, _: &[u8]) {}
}

/// Passes each meaningful line of a text on. Reading ends at the first unreadable byte.
///
/// # Errors
/// [`Error::Broken`] if none of it can be read; [`Error::Io`] of `take`.
pub fn parts(
    text: impl BufRead,
    mut take: impl FnMut(Part<'_>) -> io::Result<()>,
) -> Result<(), Error> {
    parts_of(text, &mut (), |(), part| take(part)).map(|_| ())
}

/// Passes each meaningful line on, and the names in a dump. Returns the errors in the text.
fn parts_of<N: Names>(
    mut text: impl BufRead,
    names: &mut N,
    mut take: impl FnMut(&mut N, Part<'_>) -> io::Result<()>,
) -> Result<Losses, Error> {
    let (mut buffer, mut bytes) = (Vec::new(), 0);
    let (mut sections, mut losses) = (Sections::default(), Losses::default());
    loop {
        buffer.clear();
        match text.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut buffer) {
            Ok(0) => return Ok(losses),
            Ok(count) => bytes += count as u64,
            Err(error) if bytes == 0 => return Err(Error::Broken { at: 0, error }),
            Err(error) => {
                losses.truncated = Some((bytes, error.to_string()));
                return Ok(losses);
            }
        }
        losses.lines += 1;
        let line = buffer.trim_ascii_end();
        if line.starts_with(b"#") {
            if line.starts_with(notes::COMMENT.as_bytes()) {
                take(names, Part::About(line)).map_err(Error::Io)?;
            } else if line.starts_with(notes::DETAILS.as_bytes()) {
                take(names, Part::Details(line)).map_err(Error::Io)?;
            }
            continue;
        }
        if sections.takes(line, names) {
            continue;
        }
        let unquoted = sections.unquoted(line);
        let line = unquoted.as_deref().unwrap_or(line).trim_ascii_end();
        match line::split(line) {
            Ok(event) => take(names, Part::Event(event)).map_err(Error::Io)?,
            Err(_) if super::is_preamble(line) || line.starts_with(b"CPU:") => {}
            Err(why) => losses.bad(losses.lines, why, line),
        }
    }
}
