//! Restores the names in a trace's text, and leaves everything else unchanged.

use super::Mapping;
use crate::text::{MAX_LINE_BYTES, rename, split};
use std::io::{BufRead, Read, Write};

impl Mapping {
    /// Copies ftrace text with the names of its markers restored.
    ///
    /// # Errors
    /// The error of the reader or the writer.
    pub fn apply_to_text(
        &self,
        mut text: impl BufRead,
        out: &mut impl Write,
    ) -> std::io::Result<()> {
        let mut buffer = Vec::new();
        loop {
            buffer.clear();
            if text.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut buffer)? == 0 {
                return Ok(());
            }
            match self.line(&buffer) {
                Some(line) => out.write_all(&line)?,
                None => out.write_all(&buffer)?,
            }
        }
    }

    /// Returns a line with its names restored; `None` if it does not change.
    fn line(&self, whole: &[u8]) -> Option<Vec<u8>> {
        let line = whole.trim_ascii_end();
        let event = split(line).ok().filter(|_| !line.starts_with(b"#"))?;
        if !event.is_marker() {
            return None;
        }
        let marker = crate::text::payload(&event);
        let renamed = rename(marker, |name| {
            // A line break would end the marker.
            self.renamed(&String::from_utf8_lossy(name)).map(|new| new.replace('\n', " "))
        })?;
        let before = line.get(..line.len() - marker.len())?;
        let after = whole.get(line.len()..)?;
        Some([before, &renamed, after].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_markers_are_restored_and_all_else_stays() {
        let mapping = Mapping::parse(
            "com.example.Feed -> a.b:\n    void bind() -> c\n7,1,com.example.Row draw ()V\n",
        )
        .unwrap();
        let at = " a.b-5 (5) [000] ...1 1.000000: ";
        let lines = [
            ("B|5|a.b.c", "B|5|com.example.Feed.bind"),
            ("B|5|7", "B|5|com.example.Row.draw"),
            ("E|5", "E|5"),
            ("C|5|a.b|7", "C|5|com.example.Feed|7"),
            ("S|5|a.b.c|7", "S|5|com.example.Feed.bind|7"),
            ("G|5|7|a.b|7", "G|5|com.example.Row.draw|com.example.Feed|7"),
            ("B|5|a.b.c  ", "B|5|com.example.Feed.bind  "),
            ("B|x|a.b.c", "B|x|a.b.c"),
            ("not a marker a.b.c", "not a marker a.b.c"),
        ];
        let head = "# tracer: nop\n# a.b.c\n";
        let (mut before, mut expected) = (head.to_owned(), head.to_owned());
        for (payload, restored) in lines {
            before += &format!("{at}tracing_mark_write: {payload}\r\n");
            expected += &format!("{at}tracing_mark_write: {restored}\r\n");
        }
        before += &format!("{at}sched_switch: prev_comm=a.b.c\nnonsense a.b.c");
        expected += &format!("{at}sched_switch: prev_comm=a.b.c\nnonsense a.b.c");
        let mut out = Vec::new();
        mapping.apply_to_text(before.as_bytes(), &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
