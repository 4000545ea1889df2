//! From a pattern to steps, in one pass without a tree.
//!
//! Every piece of program can be moved and copied, because its distances are relative: what follows an
//! atom (`*`, `{2,5}`, `|`) takes the atom's steps and puts them back with others around them.

use super::class::Escape;
use super::{Regex, Step, look};
use std::str::Chars;

/// Steps and ranges of a pattern together: 256 KiB.
const MAX_SIZE: usize = 256 * 1024 / size_of::<Step>();
/// Groups within groups, and repetitions of one atom.
const MAX_DEPTH: u32 = 50;

/// A pattern that is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The construct that is wrong or not supported.
    pub(crate) reason: &'static str,
    /// The byte of the pattern after which that became clear.
    pub(crate) at: usize,
}

pub(super) type Parsed<T = ()> = Result<T, &'static str>;

pub(super) const TOO_LARGE: &str = "the compiled pattern is larger than 256 KiB";
pub(super) const TOO_DEEP: &str = "more than 50 groups or repetitions within each other";
pub(super) const LOOK_AROUND: &str = "look-around (`(?=`, `(?!`, `(?<=`, `(?<!`) is not supported";

// Bits of the flags, in the order of FLAG_NAMES.
const FLAG_NAMES: &[u8] = b"imsURu";
pub(super) const FOLD_CASE: u8 = 1 << 0;
const MULTI_LINE: u8 = 1 << 1;
const DOT_IS_ALL: u8 = 1 << 2;
const LAZY: u8 = 1 << 3;
const CRLF: u8 = 1 << 4;

/// Compiles a pattern.
///
/// # Errors
/// The construct that is wrong or not supported, and its place.
pub(super) fn compile(pattern: &str) -> Result<Regex, Refusal> {
    let program = Regex { steps: Vec::new(), ranges: Vec::new() };
    let mut compiler = Compiler { rest: pattern.chars(), program, flags: 0, depth: 0 };
    let compiled = compiler.alternatives().and_then(|()| match compiler.rest.next() {
        Some(_) => Err("`)` without `(`"),
        None => Ok(()),
    });
    match compiled {
        Ok(()) => Ok(compiler.program),
        Err(reason) => Err(Refusal { reason, at: pattern.len() - compiler.rest.as_str().len() }),
    }
}

pub(super) struct Compiler<'a> {
    pub(super) rest: Chars<'a>,
    pub(super) program: Regex,
    flags: u8,
    /// Groups that are open.
    depth: u32,
}

impl Compiler<'_> {
    pub(super) fn peek(&self) -> Option<char> {
        self.rest.clone().next()
    }

    pub(super) fn eat(&mut self, char: char) -> bool {
        let is_there = self.peek() == Some(char);
        if is_there {
            self.rest.next();
        }
        is_there
    }

    pub(super) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Fails if `more` steps and ranges do not fit.
    pub(super) fn reserve(&self, more: usize) -> Parsed {
        let size = self.program.steps.len() + self.program.ranges.len();
        if size.saturating_add(more) > MAX_SIZE { Err(TOO_LARGE) } else { Ok(()) }
    }

    pub(super) fn push(&mut self, step: Step) -> Parsed {
        self.reserve(1)?;
        self.program.steps.push(step);
        Ok(())
    }

    /// Compiles branches with `|` between them, up to `)` or the end.
    fn alternatives(&mut self) -> Parsed {
        let mut jumps = Vec::new();
        loop {
            let begin = self.program.steps.len();
            self.branch()?;
            if !self.eat('|') {
                break;
            }
            self.reserve(2)?;
            let steps = &mut self.program.steps;
            steps.insert(begin, Step::NextOr(distance(steps.len() + 2 - begin)));
            jumps.push(steps.len());
            steps.push(Step::Jump(0));
        }
        let end = self.program.steps.len();
        for at in jumps {
            if let Some(jump) = self.program.steps.get_mut(at) {
                *jump = Step::Jump(distance(end - at));
            }
        }
        Ok(())
    }

    /// Compiles atoms with their repetitions, up to `|`, `)` or the end.
    fn branch(&mut self) -> Parsed {
        let (mut atom, mut repetitions) = (None, 0);
        loop {
            let (min, max) = match self.peek() {
                None | Some('|' | ')') => return Ok(()),
                Some('*') => (0, None),
                Some('+') => (1, None),
                Some('?') => (0, Some(1)),
                Some('{') => self.counts()?,
                Some(char) => {
                    self.rest.next();
                    let begin = self.program.steps.len();
                    atom = self.atom(char)?.then_some(begin);
                    repetitions = 0;
                    continue;
                }
            };
            // The sign of the repetition, or the `}`.
            self.rest.next();
            let is_lazy = self.eat('?') != self.has(LAZY);
            repetitions += 1;
            if repetitions > MAX_DEPTH {
                return Err(TOO_DEEP);
            }
            self.repeat(atom.ok_or("a repetition of nothing")?, min, max, is_lazy)?;
        }
    }

    /// Reads `{3`, `{3,` or `{3,5`, up to the `}`.
    fn counts(&mut self) -> Parsed<(usize, Option<usize>)> {
        self.rest.next();
        let min = self.number()?;
        let max = match self.peek() {
            Some(',') => {
                self.rest.next();
                if self.peek() == Some('}') { None } else { Some(self.number()?) }
            }
            _ => Some(min),
        };
        match self.peek() {
            Some('}') if max.is_none_or(|max| max >= min) => Ok((min, max)),
            Some('}') => Err("a repetition whose maximum is below its minimum"),
            _ => Err("`{` without `}`"),
        }
    }

    fn number(&mut self) -> Parsed<usize> {
        while self.eat(' ') {}
        let mut number = None;
        while let Some(digit) = self.peek().and_then(|char| char.to_digit(10)) {
            self.rest.next();
            // A number above the limit stays above it, and is refused for that.
            number = Some((number.unwrap_or(0) * 10 + digit as usize).min(MAX_SIZE + 1));
        }
        while self.eat(' ') {}
        number.ok_or("`{` without a number")
    }

    /// Repeats the steps from `begin` on.
    fn repeat(&mut self, begin: usize, min: usize, max: Option<usize>, is_lazy: bool) -> Parsed {
        let atom = self.program.steps.split_off(begin);
        // `x*` is compiled as `(x+)?`: so the order of preference is right if `x` matches nothing.
        let optional = max.map_or(usize::from(min == 0), |max| max - min);
        let size = atom.len() + 1;
        self.reserve(size.saturating_mul(min + optional) + 1)?;
        let steps = &mut self.program.steps;
        for _ in 0..min {
            steps.extend_from_slice(&atom);
        }
        for left in (1..=optional).rev() {
            let end = distance(left * size + usize::from(max.is_none()));
            steps.push(if is_lazy { Step::ThereOr(end) } else { Step::NextOr(end) });
            steps.extend_from_slice(&atom);
        }
        if max.is_none() {
            let back = -distance(atom.len());
            steps.push(if is_lazy { Step::NextOr(back) } else { Step::ThereOr(back) });
        }
        Ok(())
    }

    /// Compiles an atom that begins with `char`; false for one that only sets flags.
    fn atom(&mut self, char: char) -> Parsed<bool> {
        let ranges = self.program.ranges.len();
        match char {
            '(' => return self.group(),
            '[' => self.class()?,
            '.' => {
                if !self.has(DOT_IS_ALL) {
                    self.add_range('\n', '\n')?;
                    if self.has(CRLF) {
                        self.add_range('\r', '\r')?;
                    }
                }
                self.end_class(ranges, true)?;
            }
            '^' => self.push(Step::Look(match self.flags & (MULTI_LINE | CRLF) {
                0 | CRLF => look::TEXT_START,
                MULTI_LINE => look::LINE_START,
                _ => look::CRLF_START,
            }))?,
            '$' => self.push(Step::Look(match self.flags & (MULTI_LINE | CRLF) {
                0 | CRLF => look::TEXT_END,
                MULTI_LINE => look::LINE_END,
                _ => look::CRLF_END,
            }))?,
            '\\' => match self.escape()? {
                Escape::Char(char) => self.literal(char)?,
                Escape::Class => self.end_class(ranges, false)?,
                Escape::Look(positions) => self.push(Step::Look(positions))?,
            },
            _ => self.literal(char)?,
        }
        Ok(true)
    }

    fn literal(&mut self, char: char) -> Parsed {
        if !self.has(FOLD_CASE) || !char.is_ascii_alphabetic() {
            return self.push(Step::Char(char));
        }
        let ranges = self.program.ranges.len();
        self.add_range(char, char)?;
        self.fold_case(ranges)?;
        self.end_class(ranges, false)
    }

    /// Compiles a group after its `(`; false for one that only sets flags.
    fn group(&mut self) -> Parsed<bool> {
        let flags = self.flags;
        if self.eat('?') {
            match self.peek() {
                Some('=' | '!') => return Err(LOOK_AROUND),
                Some('P' | '<') => self.name()?,
                _ => {
                    if self.set_flags()? == ')' {
                        return Ok(false);
                    }
                }
            }
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(TOO_DEEP);
        }
        self.alternatives()?;
        if !self.eat(')') {
            return Err("`(` without `)`");
        }
        self.depth -= 1;
        self.flags = flags;
        Ok(true)
    }

    /// Skips `P<name>` or `<name>`: only whole matches are replaced.
    fn name(&mut self) -> Parsed {
        self.eat('P');
        if !self.eat('<') {
            return Err("an unknown kind of group");
        }
        if let Some('=' | '!') = self.peek() {
            return Err(LOOK_AROUND);
        }
        let mut is_empty = true;
        loop {
            match self.rest.next() {
                Some('>') if !is_empty => return Ok(()),
                Some('0'..='9' | '.' | '[' | ']') if !is_empty => {}
                Some('A'..='Z' | 'a'..='z' | '_' | '\u{80}'..) => is_empty = false,
                _ => return Err("a wrong name of a group"),
            }
        }
    }

    /// Reads flags up to the `)` or `:` behind them, which it gives back.
    fn set_flags(&mut self) -> Parsed<char> {
        let (mut seen, mut is_on) = (0, true);
        loop {
            let char = self.rest.next().ok_or("`(` without `)`")?;
            match char {
                ':' => return Ok(char),
                ')' if seen != 0 => return Ok(char),
                '-' if is_on => is_on = false,
                'x' => return Err("flag `x` is not supported"),
                _ => {
                    let number = FLAG_NAMES.iter().position(|&name| char::from(name) == char);
                    let flag = 1 << number.ok_or("an unknown flag or kind of group")?;
                    if seen & flag != 0 {
                        return Err("a flag that is there twice");
                    }
                    seen |= flag;
                    self.flags = if is_on { self.flags | flag } else { self.flags & !flag };
                }
            }
        }
    }
}

/// Programs are far smaller than 2^31 steps.
fn distance(steps: usize) -> i32 {
    i32::try_from(steps).unwrap_or(i32::MAX)
}
