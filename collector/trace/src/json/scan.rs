//! Takes the events out of a file of JSON, one at a time: of an array, which need not end, or of the
//! `traceEvents` of an object. A file of any size takes the memory of one event.

use crate::error::Error;
use serde_json::{Map, Value};
use std::io::{BufRead, ErrorKind};

/// Limit of an event, which may contain a whole profile, and of all members besides the events, as text. Longer ones are
/// omitted.
const MAX_VALUE_BYTES: usize = 16 << 20;
/// Limit of the numbers of DevTools' `traceBinary`, as text.
const MAX_PACKETS_BYTES: usize = 512 << 20;
/// The longest name of a member that matters.
const MAX_KEY_BYTES: usize = 256;

/// Receives the scanner's results.
pub(crate) trait Take {
    /// An element of the array of events.
    fn event(&mut self, text: &[u8]);
    /// An element that is too long.
    fn too_long(&mut self, beginning: &[u8]);
    /// True if it accepts no more events.
    fn is_full(&self) -> bool;
}

/// Position at which a file ended early.
pub(crate) struct End {
    pub(crate) at: u64,
    pub(crate) why: String,
}

pub(crate) struct Scanner<R> {
    inner: R,
    offset: u64,
    failed: Option<std::io::Error>,
    /// Members of the object besides its events; `true` in place of one for which there is no room.
    pub(crate) members: Map<String, Value>,
    /// Room for more of them.
    room: usize,
    /// Perfetto's packets in an export of DevTools.
    pub(crate) packets: Option<Vec<u8>>,
    /// True if there is an array of events.
    pub(crate) has_events: bool,
}

const WITHIN_EVENT: &str = "ends inside an event";

/// End of an array.
enum Elements {
    /// The array ended with its bracket, or because no more events are accepted.
    Closed,
    /// Ended between elements.
    Open,
    /// Ended within an element.
    Within,
}

enum Found {
    Whole,
    TooLong,
    Ended,
}

impl<R: BufRead> Scanner<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self {
            inner,
            offset: 0,
            failed: None,
            members: Map::new(),
            room: MAX_VALUE_BYTES,
            packets: None,
            has_events: false,
        }
    }

    /// Gives all events.
    pub(crate) fn scan(&mut self, take: &mut impl Take) -> Result<Option<End>, Error> {
        if self.peek() == Some(0xEF) {
            (0..3).for_each(|_| self.skip());
        }
        self.spaces();
        let ended = match self.peek() {
            Some(b'[') => {
                self.skip();
                // An array need not end, because its writer may have been killed.
                match self.elements(take) {
                    Elements::Closed | Elements::Open => None,
                    Elements::Within => Some(WITHIN_EVENT),
                }
            }
            Some(b'{') => {
                self.skip();
                self.object(take, 0)
            }
            other => {
                return Err(Error::At {
                    offset: self.offset,
                    why: match other {
                        Some(byte) => {
                            format!("JSON begins with [ or {{, not '{}'", byte.escape_ascii())
                        }
                        None => "it is empty".to_owned(),
                    },
                });
            }
        };
        let at = self.offset;
        Ok(match self.failed.take() {
            Some(error) => Some(End { at, why: error.to_string() }),
            None => ended.map(|why| End { at, why: why.to_owned() }),
        })
    }

    fn object(&mut self, take: &mut impl Take, depth: u8) -> Option<&'static str> {
        const WITHIN: Option<&str> = Some("ends inside the object");
        loop {
            self.spaces();
            match self.peek() {
                Some(b',') => {
                    self.skip();
                    continue;
                }
                Some(b'}') => {
                    self.skip();
                    return None;
                }
                Some(b'"') => {}
                Some(_) => return Some("a member name is missing"),
                None => return WITHIN,
            }
            let mut key = Vec::new();
            self.value(&mut key, MAX_KEY_BYTES);
            let key = serde_json::from_slice(&key).unwrap_or_else(|_| String::new());
            self.spaces();
            if self.peek() != Some(b':') {
                return WITHIN;
            }
            self.skip();
            self.spaces();
            match (&*key, self.peek()) {
                ("traceEvents", Some(b'[')) => {
                    self.skip();
                    match self.elements(take) {
                        Elements::Closed => {}
                        Elements::Open => return Some("ends inside the list of events"),
                        Elements::Within => return Some(WITHIN_EVENT),
                    }
                }
                // The answer of the Dart VM's service, and an export of DevTools.
                ("result" | "performance", Some(b'{')) if depth == 0 => {
                    self.skip();
                    if let Some(why) = self.object(take, 1) {
                        return Some(why);
                    }
                }
                ("traceBinary", Some(b'[')) => {
                    let mut text = Vec::new();
                    match self.value(&mut text, MAX_PACKETS_BYTES) {
                        Found::Whole => self.packets = serde_json::from_slice(&text).ok(),
                        Found::TooLong => return Some("has a traceBinary of more than 512 MB"),
                        Found::Ended => return Some("ends inside its traceBinary"),
                    }
                }
                _ => {
                    let mut text = Vec::new();
                    match self.value(&mut text, self.room) {
                        Found::Whole => {
                            self.room = self.room.saturating_sub(key.len() + text.len());
                            if let Ok(value) = serde_json::from_slice(&text) {
                                self.members.insert(key, value);
                            }
                        }
                        Found::TooLong => {
                            self.members.insert(key, Value::Bool(true));
                        }
                        Found::Ended => {}
                    }
                }
            }
            if take.is_full() {
                return None;
            }
        }
    }

    fn elements(&mut self, take: &mut impl Take) -> Elements {
        self.has_events = true;
        let mut text = Vec::new();
        loop {
            self.spaces();
            match self.peek() {
                None => return Elements::Open,
                Some(b']') => {
                    self.skip();
                    return Elements::Closed;
                }
                Some(b',') => {
                    self.skip();
                    continue;
                }
                Some(_) => {}
            }
            text.clear();
            match self.value(&mut text, MAX_VALUE_BYTES) {
                Found::Whole => take.event(&text),
                Found::TooLong => take.too_long(&text),
                // A truncated element is not an event.
                Found::Ended => return Elements::Within,
            }
            if take.is_full() {
                return Elements::Closed;
            }
        }
    }

    /// A value up to its end; its text as far as there is room.
    fn value(&mut self, text: &mut Vec<u8>, room: usize) -> Found {
        let (mut depth, mut in_string, mut is_escaped, mut is_scalar) =
            (0_u64, false, false, false);
        let mut is_long = false;
        loop {
            let Some(bytes) = self.fill() else { return Found::Ended };
            let mut used = 0;
            let mut is_done = false;
            for &byte in bytes {
                if in_string {
                    used += 1;
                    match byte {
                        _ if is_escaped => is_escaped = false,
                        b'\\' => is_escaped = true,
                        b'"' => {
                            in_string = false;
                            is_done = depth == 0;
                        }
                        _ => {}
                    }
                } else {
                    match byte {
                        // A number or a word ends at the following character.
                        b',' | b']' | b'}' | b' ' | b'\n' | b'\r' | b'\t' | b':' if depth == 0 => {
                            is_done = is_scalar;
                            used += usize::from(!is_scalar);
                            is_scalar = true;
                            if is_done {
                                break;
                            }
                            continue;
                        }
                        b'"' => in_string = true,
                        b'{' | b'[' => depth += 1,
                        b'}' | b']' => {
                            depth -= 1;
                            is_done = depth == 0;
                        }
                        _ => is_scalar |= depth == 0,
                    }
                    used += 1;
                }
                if is_done {
                    break;
                }
            }
            let taken = bytes.get(..used).unwrap_or_default();
            if text.len() + taken.len() <= room {
                text.extend_from_slice(taken);
            } else {
                is_long = true;
            }
            self.consume(used);
            if is_done {
                return if is_long { Found::TooLong } else { Found::Whole };
            }
        }
    }

    fn spaces(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.skip();
        }
    }

    fn peek(&mut self) -> Option<u8> {
        self.fill()?.first().copied()
    }

    fn skip(&mut self) {
        if self.fill().is_some() {
            self.consume(1);
        }
    }

    fn consume(&mut self, count: usize) {
        self.inner.consume(count);
        self.offset += count as u64;
    }

    /// Returns the next bytes; `None` at the end and after an error.
    fn fill(&mut self) -> Option<&[u8]> {
        if self.failed.is_some() {
            return None;
        }
        loop {
            match self.inner.fill_buf() {
                Ok(_) => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.failed = Some(error);
                    return None;
                }
            }
        }
        // Buffered by now.
        self.inner.fill_buf().ok().filter(|bytes| !bytes.is_empty())
    }
}
