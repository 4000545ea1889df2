//! Events of ftrace texts that the model cannot represent, mostly the kernel's: on the joined trace's clock, by time, for
//! writers of formats that can. They are read from the texts once more, one at a time.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, BufRead};
use tracetee_trace::Error;
use tracetee_trace::text::{Line, LineReader};

/// The texts with such events.
#[derive(Default)]
pub struct Kernel {
    texts: Vec<Text>,
    /// Events given out that are no markers.
    given: u64,
}

struct Text {
    reader: LineReader<Box<dyn BufRead>>,
    shift_ns: i64,
    /// The threads whose events are wanted; all if `None`.
    only: Option<BTreeSet<u32>>,
    /// Time of the next event; `None` at the end.
    next_ns: Option<u64>,
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel").field("texts", &self.texts.len()).finish_non_exhaustive()
    }
}

impl Kernel {
    /// Adds a text; `shift_ns` is added to its times. With `only`, events stay that concern one of these threads.
    ///
    /// # Errors
    /// [`Error::Broken`] if nothing of it can be read.
    pub fn add(
        &mut self,
        text: Box<dyn BufRead>,
        shift_ns: i64,
        only: Option<BTreeSet<u32>>,
    ) -> Result<(), Error> {
        let mut text = Text { reader: LineReader::new(text), shift_ns, only, next_ns: None };
        text.advance()?;
        self.texts.push(text);
        Ok(())
    }

    /// True if there are no texts to read.
    pub(crate) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Returns the number of kernel events that were returned.
    pub(crate) const fn given(&self) -> u64 {
        self.given
    }

    /// Gives the next event out if it is not after `by_ns`; false if there is none.
    pub(crate) fn next(
        &mut self,
        by_ns: u64,
        take: impl FnOnce(u64, &Line<'_>) -> io::Result<()>,
    ) -> io::Result<bool> {
        let with_times = self.texts.iter_mut().filter_map(|text| Some((text.next_ns?, text)));
        let first = with_times.min_by_key(|&(at_ns, _)| at_ns);
        let Some((at_ns, text)) = first.filter(|&(at_ns, _)| at_ns <= by_ns) else {
            return Ok(false);
        };
        if let Some(line) = text.reader.line() {
            self.given += u64::from(!matches!(line.event, b"tracing_mark_write" | b"print"));
            take(at_ns, &line)?;
        }
        text.advance().map_err(io::Error::other)?;
        Ok(true)
    }
}

impl Text {
    fn advance(&mut self) -> Result<(), Error> {
        let mut at_ns = self.reader.next_other()?;
        while at_ns.is_some() && !self.is_wanted() {
            at_ns = self.reader.next_other()?;
        }
        self.next_ns = at_ns.map(|at_ns| at_ns.saturating_add_signed(self.shift_ns));
        Ok(())
    }
    fn is_wanted(&mut self) -> bool {
        let Some(only) = &self.only else { return true };
        self.reader.line().is_some_and(|line| concerns(&line, only))
    }
}

/// True for an event of one of these threads, or with the id of one in a field (`next_pid=12`), and for one of all.
fn concerns(line: &Line<'_>, tids: &BTreeSet<u32>) -> bool {
    if matches!(line.event, b"cpu_frequency" | b"cpu_idle" | b"cpu_frequency_limits") {
        return true;
    }
    // A switch has the thread that ran before as its own.
    let is_own = tids.contains(&line.tid);
    let fields = memchr::memmem::find_iter(line.payload, b"pid=");
    let mut ids = fields.filter_map(|at| {
        let digits = line.payload.get(at + 4..)?;
        let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
        std::str::from_utf8(digits.get(..end)?).ok()?.parse::<u32>().ok()
    });
    is_own || ids.any(|tid| tids.contains(&tid))
}
