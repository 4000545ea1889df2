//! Events of ftrace texts that the model cannot represent, mostly the kernel's: on the joined trace's clock, by time, for
//! writers of formats that can. They are read from the texts once more, one at a time.

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
    /// Time of the next event; `None` at the end.
    next_ns: Option<u64>,
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel").field("texts", &self.texts.len()).finish_non_exhaustive()
    }
}

impl Kernel {
    /// Adds a text; `shift_ns` is added to its times.
    ///
    /// # Errors
    /// [`Error::Broken`] if nothing of it can be read.
    pub fn add(&mut self, text: Box<dyn BufRead>, shift_ns: i64) -> Result<(), Error> {
        let mut text = Text { reader: LineReader::new(text), shift_ns, next_ns: None };
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
        let at_ns = self.reader.next_other()?;
        self.next_ns = at_ns.map(|at_ns| at_ns.saturating_add_signed(self.shift_ns));
        Ok(())
    }
}
