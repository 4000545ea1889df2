//! Classes of characters and escapes.

use super::compile::{Compiler, FOLD_CASE, Parsed};
use super::{Step, look};

/// Classes of ASCII: name, and pairs of first and last characters in order, each ended by 0xff.
const CLASSES: &[u8] = b"digit\xff09\xffspace\xff\t\r  \xffword\xff09AZ__az\xffalnum\xff09AZaz\xffalpha\xffAZaz\
    \xffascii\xff\0\x7f\xffblank\xff\t\t  \xffcntrl\xff\0\x1f\x7f\x7f\xffgraph\xff!~\xfflower\xffaz\xffprint\
    \xff ~\xffpunct\xff!/:@[`{~\xffupper\xffAZ\xffxdigit\xff09AFaf\xff";

const UNCLOSED: &str = "`[` without `]`";

/// The meaning of an escape.
pub(super) enum Escape {
    /// A character.
    Char(char),
    /// A class, whose ranges were added.
    Class,
    /// An assertion.
    Look(u32),
}

impl Compiler<'_> {
    /// Compiles a class after its `[`.
    pub(super) fn class(&mut self) -> Parsed {
        let begin = self.program.ranges.len();
        let is_negated = self.eat('^');
        while self.eat('-') {
            self.add_range('-', '-')?;
        }
        if self.program.ranges.len() == begin && self.eat(']') {
            self.add_range(']', ']')?;
        }
        loop {
            match self.rest.next().ok_or(UNCLOSED)? {
                ']' => break,
                '[' => self.class_by_name()?,
                char @ ('&' | '-' | '~') if self.peek() == Some(char) => {
                    return Err("`&&`, `--` and `~~` in a class are not supported");
                }
                char => self.class_item(char)?,
            }
        }
        if self.has(FOLD_CASE) {
            self.fold_case(begin)?;
        }
        self.end_class(begin, is_negated)
    }

    /// Reads `a`, `\d` or `a-z`.
    fn class_item(&mut self, char: char) -> Parsed {
        let first = self.class_char(char)?;
        let mut ahead = self.rest.clone();
        if ahead.next() != Some('-') || matches!(ahead.next(), Some(']' | '-')) {
            return first.map_or(Ok(()), |char| self.add_range(char, char));
        }
        self.rest.next();
        let char = self.rest.next().ok_or(UNCLOSED)?;
        match (first, self.class_char(char)?) {
            (Some(first), Some(last)) if first <= last => self.add_range(first, last),
            (Some(_), Some(_)) => Err("a range in a class whose end is before its begin"),
            _ => Err("a range in a class from or to a class"),
        }
    }

    /// Reads one character of a class; `None` for an escape that stands for several, which are added.
    fn class_char(&mut self, char: char) -> Parsed<Option<char>> {
        if char != '\\' {
            return Ok(Some(char));
        }
        match self.escape()? {
            Escape::Char(char) => Ok(Some(char)),
            Escape::Class => Ok(None),
            Escape::Look(_) => Err("an assertion in a class"),
        }
    }

    /// Reads `:alpha:]` or `:^alpha:]` after its `[`.
    fn class_by_name(&mut self) -> Parsed {
        const NESTED: &str = "a class within a class is not supported, or not one of `[:alpha:]` …";
        let (name, rest) = named(self.rest.as_str()).ok_or(NESTED)?;
        let positive = name.strip_prefix('^');
        let is_known = self.add_class(positive.unwrap_or(name).as_bytes(), positive.is_some())?;
        self.rest = rest.chars();
        if is_known { Ok(()) } else { Err(NESTED) }
    }

    /// Adds the ranges of a class of ASCII; false if there is none of that name.
    fn add_class(&mut self, name: &[u8], is_negated: bool) -> Parsed<bool> {
        let begin = self.program.ranges.len();
        let mut classes = CLASSES.split(|&byte| byte == 0xff);
        while let Some(other) = classes.next() {
            let ranges = classes.next().unwrap_or_default();
            if other != name || ranges.is_empty() {
                continue;
            }
            for range in ranges.chunks_exact(2) {
                if let &[first, last] = range {
                    self.add_range(char::from(first), char::from(last))?;
                }
            }
            if is_negated {
                let ranges = self.program.ranges.split_off(begin);
                self.add_complement(&ranges)?;
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Adds all characters that are in none of the `ranges`, which are in order.
    fn add_complement(&mut self, ranges: &[(u32, u32)]) -> Parsed {
        let mut next = 0;
        for &(first, last) in ranges {
            if next < first {
                self.add_codes(next, first - 1)?;
            }
            next = last + 1;
        }
        self.add_codes(next, u32::from(char::MAX))
    }

    pub(super) fn add_range(&mut self, first: char, last: char) -> Parsed {
        self.add_codes(u32::from(first), u32::from(last))
    }

    fn add_codes(&mut self, first: u32, last: u32) -> Parsed {
        self.reserve(1)?;
        self.program.ranges.push((first, last));
        Ok(())
    }

    /// Adds the letters of the other case to the ranges from `begin` on.
    pub(super) fn fold_case(&mut self, begin: usize) -> Parsed {
        const CASE: u32 = 0x20;
        for index in begin..self.program.ranges.len() {
            let Some(&(first, last)) = self.program.ranges.get(index) else { break };
            for (a, z) in [('A', 'Z'), ('a', 'z')] {
                let (first, last) = (first.max(u32::from(a)), last.min(u32::from(z)));
                if first <= last {
                    self.add_codes(first ^ CASE, last ^ CASE)?;
                }
            }
        }
        Ok(())
    }

    /// Adds the step of a class whose ranges begin there.
    pub(super) fn end_class(&mut self, begin: usize, is_negated: bool) -> Parsed {
        // The limit of the size is below 2^16 ranges.
        let number = |index| u16::try_from(index).unwrap_or(u16::MAX);
        let (first, end) = (number(begin), number(self.program.ranges.len()));
        self.push(Step::Class { first, end, is_negated })
    }

    /// Reads an escape after its `\`.
    pub(super) fn escape(&mut self) -> Parsed<Escape> {
        let char = self.rest.next().ok_or("`\\` at the end")?;
        let class: &[u8] = match char {
            'd' | 'D' => b"digit",
            's' | 'S' => b"space",
            'w' | 'W' => b"word",
            _ => b"",
        };
        if self.add_class(class, char.is_ascii_uppercase())? {
            return Ok(Escape::Class);
        }
        Ok(Escape::Char(match char {
            'a' => '\x07',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            'x' => self.hexadecimal(2)?,
            'u' => self.hexadecimal(4)?,
            'U' => self.hexadecimal(8)?,
            'A' => return Ok(Escape::Look(look::TEXT_START)),
            'z' => return Ok(Escape::Look(look::TEXT_END)),
            'b' => return Ok(Escape::Look(look::WORD_BOUNDARY)),
            'B' => return Ok(Escape::Look(look::NO_WORD_BOUNDARY)),
            '<' => return Ok(Escape::Look(look::WORD_START)),
            '>' => return Ok(Escape::Look(look::WORD_END)),
            'p' | 'P' => return Err("classes of Unicode (`\\p`) are not supported"),
            '0'..='9' => return Err("back-references (`\\1`) are not supported"),
            'A'..='Z' | 'a'..='z' | '\u{80}'.. => return Err("an unknown escape"),
            _ => char,
        }))
    }

    /// Reads so many hexadecimal digits, or any number of them in braces.
    fn hexadecimal(&mut self, digits: usize) -> Parsed<char> {
        const WRONG: &str = "a character by number (`\\x41`, `\\x{1f600}`) that is none";
        let is_in_braces = self.eat('{');
        let (mut number, mut count) = (0, 0);
        while is_in_braces || count < digits {
            let char = self.rest.next().ok_or(WRONG)?;
            if char == '}' && is_in_braces && count > 0 {
                break;
            }
            let digit =
                char.to_digit(16).filter(|_| number <= u32::from(char::MAX)).ok_or(WRONG)?;
            number = number << 4 | digit;
            count += 1;
        }
        char::from_u32(number).ok_or(WRONG)
    }
}

/// Takes `:alpha:]` apart: the name, and the text after it.
fn named(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix(':')?;
    let end = text.bytes().position(|byte| byte == b':')?;
    let rest = text.get(end + 1..)?.strip_prefix(']')?;
    Some((text.get(..end)?, rest))
}
