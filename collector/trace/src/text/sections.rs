//! Finds ftrace text in systrace's HTML page, and reads its PROCESS DUMP section, which names processes
//! and threads.

/// Receives the content of a PROCESS DUMP.
pub(super) trait Names {
    /// Receives a process' name.
    fn process(&mut self, pid: u32, name: &[u8]);
    /// Receives a thread's process and name.
    fn thread(&mut self, tid: u32, pid: u32, name: &[u8]);
}

/// Place of a line in a file.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
enum Place {
    /// In plain text, or in a page's data.
    #[default]
    Text,
    /// In a page, outside its data.
    Page,
    /// In a section of a page that is not text.
    Other,
    /// In text in a script's string: `var linuxPerfData = "\`, from systrace before 2013.
    Quoted,
    /// At the last line of that string.
    QuotedLast,
    /// In a table of ps with these columns.
    Processes(Columns),
    Threads,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Columns {
    name: Option<usize>,
    has_more: bool,
}

/// Follows the sections of a file.
#[derive(Debug, Default)]
pub(crate) struct Sections {
    index: Place,
    is_page: bool,
    has_begun: bool,
    /// True at the start of a section.
    is_at_start: bool,
}

/// Ends a section of a page.
const END: &[u8] = b"</script>";

/// True for a line of ftrace text.
fn is_line(text: &[u8]) -> bool {
    super::line::split(text).is_ok()
}

impl Sections {
    /// Handles a line around ftrace text. Returns false for a line of the text itself.
    pub(crate) fn takes(&mut self, line: &[u8], names: &mut impl Names) -> bool {
        let text = line.trim_ascii();
        if !self.has_begun {
            if text.is_empty() {
                return true;
            }
            self.has_begun = true;
            let lower: Vec<u8> = text.iter().take(15).map(u8::to_ascii_lowercase).collect();
            self.is_page = lower.starts_with(b"<!doctype html") || lower.starts_with(b"<html");
            if self.is_page {
                self.index = Place::Page;
            }
        }
        if self.is_page && self.takes_of_page(text) {
            return true;
        }
        if text.is_empty() || text.starts_with(b"TRACE:") {
            return true;
        }
        if text == b"PROCESS DUMP" {
            self.index = Place::Processes(Columns::default());
            return true;
        }
        if text.starts_with(b"USER ") && !matches!(self.index, Place::Page | Place::Other) {
            self.index = columns(text);
            return true;
        }
        match &self.index {
            Place::Text | Place::Quoted | Place::QuotedLast => false,
            Place::Page | Place::Other => true,
            Place::Processes(columns) => {
                let row = process(text, columns, names);
                self.still(row.is_some())
            }
            Place::Threads => {
                let row = thread(text, names);
                self.still(row.is_some())
            }
        }
    }

    /// True outside pages and tables, where a line belongs to the text whatever follows its thread.
    pub(super) fn is_in_text(&self) -> bool {
        self.has_begun && !self.is_page && self.index == Place::Text
    }

    /// The unescaped text of a line of a script's string; `None` for other lines, which are used unchanged.
    pub(crate) fn unquoted(&self, line: &[u8]) -> Option<Vec<u8>> {
        matches!(self.index, Place::Quoted | Place::QuotedLast).then(|| unescaped(line))
    }

    /// A line that is not a row ends the table.
    fn still(&mut self, is_row: bool) -> bool {
        if !is_row {
            self.index = Place::Text;
        }
        is_row
    }

    fn takes_of_page(&mut self, text: &[u8]) -> bool {
        if self.index == Place::Page {
            // The viewer's own script may speak of it too.
            let is_data = text.starts_with(b"<script")
                && memchr::memmem::find(text, b"class=\"trace-data\"").is_some();
            if is_data {
                let is_text = memchr::memmem::find(text, b"application/text").is_some();
                self.index = if is_text { Place::Text } else { Place::Other };
                self.is_at_start = true;
                // All of it on one line.
                if text.ends_with(END) {
                    self.index = Place::Page;
                }
            }
            if is_quoted_data(text) {
                self.index = Place::Quoted;
            }
            return true;
        }
        if self.index == Place::QuotedLast {
            self.index = Place::Page;
            return true;
        }
        if self.index == Place::Quoted && (text.ends_with(b"\";") || text == b"\"") {
            self.index = Place::QuotedLast;
            // The page's own end: a line at time 0, which would be the trace's begin.
            return text.starts_with(b"dummy-0000") || !is_line(&unescaped(text));
        }
        if text.starts_with(END) || text.ends_with(END) && !is_line(text) {
            self.index = Place::Page;
            return true;
        }
        // systrace puts JSON into sections of text, and the cpusets of all threads if it has root.
        if self.is_at_start && (text.starts_with(b"{") || text == b"CGROUP DUMP") {
            self.index = Place::Other;
        }
        self.is_at_start &= text.is_empty();
        self.index == Place::Other
    }
}

/// `var linuxPerfData = "\`; the viewer's own script speaks of it without beginning a string.
fn is_quoted_data(text: &[u8]) -> bool {
    memchr::memmem::find(text, b"linuxPerfData").is_some() && text.ends_with(b"= \"\\")
}

/// A line of a script's string without its end (`\n\`, at the last one `\n";`) and its escapes.
fn unescaped(line: &[u8]) -> Vec<u8> {
    let line = line.trim_ascii_end();
    let line = line.strip_suffix(b"\";").unwrap_or(line);
    let line = line.strip_suffix(b"\\").unwrap_or(line);
    let line = line.strip_suffix(b"\\n").unwrap_or(line);
    let mut text = Vec::with_capacity(line.len());
    let mut is_escaped = false;
    for &byte in line {
        if byte == b'\\' && !is_escaped {
            is_escaped = true;
            continue;
        }
        // Line breaks and tabs within a line are blanks.
        let is_blank = is_escaped && matches!(byte, b'n' | b'r' | b't');
        text.push(if is_blank { b' ' } else { byte });
        is_escaped = false;
    }
    text
}

fn columns(header: &[u8]) -> Place {
    let names: Vec<&[u8]> = words(header).collect();
    if names.contains(&&b"TID"[..]) {
        return Place::Threads;
    }
    let name = names.iter().position(|&name| name == b"NAME" || name == b"CMD");
    let has_more = name.is_some_and(|name| name + 1 < names.len());
    Place::Processes(Columns { name, has_more })
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

fn number(word: &[u8]) -> Option<u32> {
    super::line::decimal(word).and_then(|number| u32::try_from(number).ok())
}

/// `USER PID PPID … NAME`, possibly followed by a column COMM. Old ps has a state without a heading before the name.
fn process(row: &[u8], columns: &Columns, names: &mut impl Names) -> Option<()> {
    let words: Vec<&[u8]> = words(row).collect();
    let pid = number(words.get(1)?)?;
    number(words.get(2)?)?;
    let name = match columns.name {
        Some(name) if columns.has_more => words.get(name)?,
        _ => words.last()?,
    };
    names.process(pid, name);
    Some(())
}

/// `USER PID TID CMD`: names have spaces.
fn thread(row: &[u8], names: &mut impl Names) -> Option<()> {
    let mut rest = row;
    let mut word = || {
        let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        let (word, more) = rest.split_at_checked(end)?;
        rest = more.trim_ascii_start();
        Some(word)
    };
    word()?;
    let (pid, tid) = (number(word()?)?, number(word()?)?);
    names.thread(tid, pid, rest);
    Some(())
}
