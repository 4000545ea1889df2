//! Regular expressions of the redaction rules, in a small engine of our own.
//!
//! [`compile`] turns a pattern into steps. A search follows all alternatives side by side, one character
//! of the text after the other (Thompson's construction with Pike's threads), so it takes time in
//! proportion to steps times characters, whatever both are. It never backtracks. Of several matches
//! the leftmost one counts, and of those that begin there the one that a backtracking engine would
//! find first, as in Perl and in the crates regex and regex-lite.
//!
//! docs/CAPTURES.md has the syntax.

mod class;
mod compile;
mod look;

#[cfg(test)]
mod tests;

pub(crate) use compile::Refusal;

/// A compiled pattern.
#[derive(Debug)]
pub(crate) struct Regex {
    /// The program; a thread that has passed the last step is a match.
    steps: Vec<Step>,
    /// The ranges of characters that classes consist of, as code points.
    ranges: Vec<(u32, u32)>,
}

/// One step of a program. Distances count from this step, so a piece of program can be copied.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Takes this character.
    Char(char),
    /// Takes a character in one of these ranges of the program; if negated, one that is in none.
    Class { first: u16, end: u16, is_negated: bool },
    /// Passes where the surroundings are right, see [`look`].
    Look(u32),
    /// Goes there.
    Jump(i32),
    /// Goes to the next step, and there if that does not lead to a match.
    NextOr(i32),
    /// Goes there, and to the next step if that does not lead to a match.
    ThereOr(i32),
}

/// One of the alternatives that are followed: the step that is next, and where the match began.
#[derive(Debug, Clone, Copy)]
struct Thread {
    step: usize,
    start: usize,
}

/// Memory of searches, used again by the next one.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// The threads at the present character, the preferred one first.
    threads: Vec<Thread>,
    /// Those at the next one.
    next: Vec<Thread>,
    /// For each step the number of the character (from 1) at which it was met last: the thread that meets a
    /// step first is preferred to all later ones.
    met: Vec<usize>,
    /// Steps that are still to be followed.
    open: Vec<usize>,
}

impl Regex {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// The construct that is wrong or not supported, and its place.
    pub(crate) fn new(pattern: &str) -> Result<Self, Refusal> {
        compile::compile(pattern)
    }

    /// Finds the first match at or after the byte `from`: its first byte and the byte after its last one.
    pub(crate) fn find(
        &self,
        text: &str,
        from: usize,
        scratch: &mut Scratch,
    ) -> Option<(usize, usize)> {
        scratch.threads.clear();
        scratch.met.clear();
        scratch.met.resize(self.steps.len() + 1, 0);
        let mut rest = text.get(from..)?.chars();
        let mut before = text.get(..from).and_then(|text| text.chars().next_back());
        let mut char = rest.next();
        let mut at = from;
        let mut found = None;
        for number in 1.. {
            let Scratch { threads, next, met, open } = scratch;
            if found.is_none() {
                // A match that begins here: after all that began earlier.
                let begin = Thread { step: 0, start: at };
                self.follow(begin, number, look::surroundings(before, char), threads, met, open);
            }
            let after = rest.next();
            for &Thread { step, start } in &*threads {
                let Some(&taking) = self.steps.get(step) else {
                    // The threads after this one would only find what is less preferred.
                    found = Some((start, at));
                    break;
                };
                if char.is_some_and(|char| self.takes(taking, char)) {
                    let thread = Thread { step: step + 1, start };
                    self.follow(
                        thread,
                        number + 1,
                        look::surroundings(char, after),
                        next,
                        met,
                        open,
                    );
                }
            }
            threads.clear();
            std::mem::swap(threads, next);
            let Some(taken) = char else { break };
            if found.is_some() && threads.is_empty() {
                break;
            }
            at += taken.len_utf8();
            (before, char) = (char, after);
        }
        found
    }

    /// Replaces all matches; `None` without any. The result is cut off after `max_bytes`.
    pub(crate) fn replace(
        &self,
        text: &str,
        max_bytes: usize,
        scratch: &mut Scratch,
        put: &mut dyn FnMut(&str, &mut String),
    ) -> Option<String> {
        let mut replaced = String::new();
        let (mut from, mut copied) = (0, None);
        while let Some((start, end)) = self.find(text, from, scratch) {
            if start == end && copied == Some(end) {
                // An empty match right after another match does not count.
                let next = text.get(end..).and_then(|rest| rest.chars().next());
                let Some(next) = next else { break };
                from = end + next.len_utf8();
                continue;
            }
            replaced.push_str(text.get(copied.unwrap_or(0)..start).unwrap_or_default());
            put(text.get(start..end).unwrap_or_default(), &mut replaced);
            (from, copied) = (end, Some(end));
            if replaced.len() > max_bytes {
                break;
            }
        }
        replaced.push_str(text.get(copied?..).unwrap_or_default());
        replaced.truncate(replaced.floor_char_boundary(max_bytes));
        Some(replaced)
    }

    /// True for a step that takes this character.
    fn takes(&self, step: Step, char: char) -> bool {
        match step {
            Step::Char(this) => this == char,
            Step::Class { first, end, is_negated } => {
                let ranges = self.ranges.get(usize::from(first)..usize::from(end));
                let code = u32::from(char);
                let is_in = |&(first, last): &(u32, u32)| first <= code && code <= last;
                ranges.unwrap_or_default().iter().any(is_in) != is_negated
            }
            _ => false,
        }
    }

    /// Adds a thread to `threads`, as those at which it next takes a character or matches, in the order of
    /// preference.
    fn follow(
        &self,
        thread: Thread,
        number: usize,
        surroundings: u32,
        threads: &mut Vec<Thread>,
        met: &mut [usize],
        open: &mut Vec<usize>,
    ) {
        open.push(thread.step);
        while let Some(mut step) = open.pop() {
            while let Some(met) = met.get_mut(step).filter(|met| **met != number) {
                *met = number;
                let there = |by| step.wrapping_add_signed(by as isize);
                step = match self.steps.get(step) {
                    Some(&Step::Look(positions)) if positions & surroundings != 0 => step + 1,
                    Some(Step::Look(_)) => break,
                    Some(&Step::Jump(by)) => there(by),
                    Some(&Step::NextOr(by)) => {
                        open.push(there(by));
                        step + 1
                    }
                    Some(&Step::ThereOr(by)) => {
                        open.push(step + 1);
                        there(by)
                    }
                    _ => {
                        threads.push(Thread { step, ..thread });
                        break;
                    }
                };
            }
        }
    }
}
