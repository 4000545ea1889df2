//! Redaction: removes private data from names before they leave the recorder's memory.
//!
//! Rules by regular expression, applied one after the other to each name as the text is written (to a dump, a stream, a
//! recovered trace). regex-lite does not backtrack: a search always takes time proportional to the name and to the pattern.
//! No rule makes a name longer than 4 KiB. Names repeat, so results are cached.

use regex_lite::{Regex, RegexBuilder};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use tracetee_protocol::json::quoted;
use tracetee_protocol::redaction;
pub(crate) use tracetee_protocol::redaction::{Action, Replacement, Rule};
use tracetee_recorder::record::Record;

/// Maximum number of rules, each of which is tried on each new name. Twice the limit of a document, because the rules of two
/// documents may apply at once.
const MAX_RULES: usize = 2 * redaction::MAX_RULES;
/// Bytes of one compiled expression.
const MAX_COMPILED_BYTES: usize = 256 * 1024;
/// Bytes of a name that a rule has changed; the rest is cut off. A record is shorter, but each rule could
/// replace every character by a long text.
const MAX_NAME_BYTES: usize = 4096;
/// Number of names that are remembered.
const MAX_REMEMBERED: usize = 8192;

/// Rules, ready for use. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RuleSet {
    rules: Arc<[Compiled]>,
    /// Key of hashes.
    key: u64,
}

#[derive(Debug)]
struct Compiled {
    pattern: Regex,
    except: Option<Regex>,
    action: Action,
}

impl RuleSet {
    /// Compiles rules; `key` is the key of the hashes.
    ///
    /// # Errors
    /// The index of the invalid rule, and the reason.
    pub fn new(rules: &[Rule], key: u64) -> Result<Self, (usize, String)> {
        if rules.len() > MAX_RULES {
            return Err((MAX_RULES, format!("{} rules, at most {MAX_RULES}", rules.len())));
        }
        let compile = |pattern: &str| {
            RegexBuilder::new(pattern)
                .size_limit(MAX_COMPILED_BYTES)
                .build()
                .map_err(|error| format!("pattern {}: {error}", quoted(pattern)))
        };
        let rules = rules.iter().enumerate().map(|(index, rule)| {
            let compiled = || {
                let pattern = compile(&rule.pattern)?;
                let except = rule.except.as_deref().map(compile).transpose()?;
                Ok(Compiled { pattern, except, action: rule.action.clone() })
            };
            compiled().map_err(|reason| (index, reason))
        });
        Ok(Self { rules: rules.collect::<Result<_, _>>()?, key })
    }

    fn apply(&self, name: &str) -> Outcome {
        let mut name = Cow::Borrowed(name);
        for rule in self.rules.iter() {
            if rule.except.as_ref().is_some_and(|except| except.is_match(&name))
                || !rule.pattern.is_match(&name)
            {
                continue;
            }
            name = Cow::Owned(match &rule.action {
                Action::Drop => return Outcome::Dropped,
                Action::Replace(Replacement { with }) => {
                    replaced(&rule.pattern, &name, |_, out| out.push_str(with))
                }
                Action::Hash => replaced(&rule.pattern, &name, |found, out| {
                    put_hash(keyed_hash(self.key, found), out);
                }),
            });
        }
        match name {
            Cow::Borrowed(_) => Outcome::Kept,
            Cow::Owned(name) => Outcome::Changed(name.into()),
        }
    }
}

/// Replaces all matches by what `put` writes for them, cut off after [`MAX_NAME_BYTES`].
fn replaced(pattern: &Regex, name: &str, replace: impl Fn(&str, &mut String)) -> String {
    let mut replaced = String::new();
    let mut copied = 0;
    for found in pattern.find_iter(name) {
        replaced.push_str(name.get(copied..found.start()).unwrap_or_default());
        replace(found.as_str(), &mut replaced);
        copied = found.end();
        if replaced.len() > MAX_NAME_BYTES {
            break;
        }
    }
    replaced.push_str(name.get(copied..).unwrap_or_default());
    replaced.truncate(replaced.floor_char_boundary(MAX_NAME_BYTES));
    replaced
}

/// Writes `#` and eight hexadecimal digits.
fn put_hash(hash: u32, out: &mut String) {
    out.push('#');
    for digit in (0..8).rev() {
        out.extend(char::from_digit(hash >> (4 * digit) & 15, 16));
    }
}

fn keyed_hash(key: u64, text: &str) -> u32 {
    let digest = hmac_sha256::HMAC::mac(text.as_bytes(), key.to_le_bytes());
    digest.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// Result for a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The name stays.
    Kept,
    /// Another name.
    Changed(Arc<str>),
    /// The record is dropped.
    Dropped,
}

/// The rules at work on one trace.
#[derive(Debug)]
pub struct Redactor {
    rules: RuleSet,
    /// Names with their outcomes; emptied when it is full.
    known: HashMap<Box<[u8]>, Outcome>,
    /// For each thread's open sections, true if the section was omitted.
    open: Vec<Vec<bool>>,
    /// Sections on tracks that were left out: their ends do not name them.
    tracks: Vec<(Box<[u8]>, i64)>,
    /// Number of records with changed names.
    pub(crate) changed: u64,
    /// Records left out.
    pub(crate) dropped: u64,
}

/// A record's names as they may be written: the track (or counter's group) and the name; `None` for an unchanged one.
pub(crate) type Names = [Option<Arc<str>>; 2];

impl Redactor {
    /// A redactor that has seen no name yet.
    #[must_use]
    pub fn new(rules: RuleSet) -> Self {
        Self {
            rules,
            known: HashMap::new(),
            open: Vec::new(),
            tracks: Vec::new(),
            changed: 0,
            dropped: 0,
        }
    }

    /// The names with which a thread's record may be written; `None`: it is left out.
    pub fn apply(&mut self, thread: usize, record: &Record<'_>) -> Option<Names> {
        let [track, name] = record.names().map(|name| name.map(|name| self.redact(name)));
        let is_dropped = [&track, &name].contains(&&Some(Outcome::Dropped));
        let is_dropped = match *record {
            Record::Begin { .. } => {
                self.of(thread).push(is_dropped);
                is_dropped
            }
            Record::End { .. } => self.of(thread).pop().unwrap_or(false),
            Record::TrackBegin { track, cookie, .. } if is_dropped => {
                if self.tracks.len() < MAX_REMEMBERED {
                    self.tracks.push((track.into(), cookie));
                }
                true
            }
            Record::TrackEnd { track, cookie, .. } => {
                let is_end = |(name, id): &(Box<[u8]>, i64)| *id == cookie && **name == *track;
                let begun = self.tracks.iter().position(is_end);
                begun.map(|begun| self.tracks.swap_remove(begun)).is_some() || is_dropped
            }
            _ => is_dropped,
        };
        if is_dropped {
            self.dropped += 1;
            return None;
        }
        let changed = |outcome| match outcome {
            Some(Outcome::Changed(text)) => Some(text),
            _ => None,
        };
        let names = [changed(track), changed(name)];
        self.changed += u64::from(names.iter().any(Option::is_some));
        Some(names)
    }

    /// A thread no longer has open sections.
    pub(crate) fn close(&mut self, thread: usize) {
        self.of(thread).clear();
    }

    fn of(&mut self, thread: usize) -> &mut Vec<bool> {
        if self.open.len() <= thread {
            self.open.resize_with(thread + 1, Vec::new);
        }
        &mut self.open[thread]
    }

    /// A thread's name as it may be written.
    pub fn thread_name(&mut self, name: String) -> String {
        match self.redact(name.as_bytes()) {
            Outcome::Kept => name,
            Outcome::Changed(name) => name.to_string(),
            Outcome::Dropped => "<redacted>".to_owned(),
        }
    }

    /// Redacts `name`, which may be any bytes.
    pub(crate) fn redact(&mut self, name: &[u8]) -> Outcome {
        if let Some(outcome) = self.known.get(name) {
            return outcome.clone();
        }
        let outcome = self.rules.apply(&String::from_utf8_lossy(name));
        if self.known.len() >= MAX_REMEMBERED {
            self.known.clear();
        }
        self.known.insert(name.into(), outcome.clone());
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rule(pattern: &str, action: Action) -> Rule {
        Rule { name: String::new(), pattern: pattern.to_owned(), action, except: None }
    }

    fn redactor(rules: &[Rule], key: u64) -> Redactor {
        Redactor::new(RuleSet::new(rules, key).unwrap())
    }

    fn begin(name: &str) -> Record<'_> {
        Record::Begin { pid: 1, name: name.as_bytes() }
    }

    #[test]
    fn rules_work_one_after_the_other_on_what_the_last_has_left() {
        let with = |with: &str| Action::Replace(Replacement { with: with.to_owned() });
        let mut redactor = redactor(&[rule("a+", with("b")), rule("bb", with("$0"))], 0);
        assert_eq!(redactor.thread_name("xaab".to_owned()), "x$0");
        assert_eq!(redactor.thread_name("nothing".to_owned()), "nothing");
    }

    #[test]
    fn a_wrong_rule_is_named_by_its_index() {
        let rules = [rule("a", Action::Drop), rule("a{1000000}", Action::Drop)];
        let (index, reason) = RuleSet::new(&rules, 0).unwrap_err();
        assert!(index == 1 && reason.starts_with("pattern \"a{1000000}\""), "{reason}");
        assert_eq!(RuleSet::new(&vec![rule("a", Action::Drop); 129], 0).unwrap_err().0, 128);
    }

    #[test]
    fn hashes_differ_by_device_and_not_by_place() {
        let hash = |key, name: &str| {
            redactor(&[rule("[a-z]+@", Action::Hash)], key).thread_name(name.to_owned())
        };
        assert_eq!(hash(1, "to bob@")[3..], hash(1, "bob@")[..]);
        assert_ne!(hash(1, "bob@"), hash(2, "bob@"));
        assert_ne!(hash(1, "bob@"), hash(1, "eve@"));
    }

    #[test]
    fn a_section_on_a_track_goes_with_the_end_that_does_not_name_it() {
        let mut redactor = redactor(&[rule("secret", Action::Drop)], 0);
        let begin = |name| Record::TrackBegin { pid: 1, track: b"t", name, cookie: 5 };
        let end = Record::TrackEnd { pid: 1, track: b"t", name: None, cookie: 5 };
        assert_eq!(redactor.apply(0, &begin(b"secret")), None);
        assert_eq!(redactor.apply(1, &end), None);
        assert!(redactor.apply(0, &begin(b"open")).is_some());
        assert!(redactor.apply(0, &end).is_some());
    }

    #[test]
    fn outcomes_of_a_limited_number_of_names_are_remembered() {
        let mut redactor = redactor(&[rule("secret", Action::Drop)], 0);
        for number in 0..3 * MAX_REMEMBERED {
            redactor.redact(format!("name {number}").as_bytes());
            assert!(redactor.known.len() <= MAX_REMEMBERED);
        }
        assert_eq!(redactor.redact(b"secret"), Outcome::Dropped);
    }

    proptest! {
        #[test]
        fn a_dropped_section_goes_with_its_end_and_no_other_record_does(
            sections in prop::collection::vec((0usize..2, 0u8..3), 0..60)
        ) {
            let mut redactor = redactor(&[rule("^drop", Action::Drop)], 0);
            // By thread: whether what is open was dropped.
            let mut open = [vec![], vec![]];
            for (thread, what) in sections {
                let stack: &mut Vec<bool> = &mut open[thread];
                let (record, is_dropped) = match what {
                    0 => (Record::End { pid: None }, stack.pop().unwrap_or(false)),
                    1 => (begin("drop it"), true),
                    _ => (begin("keep it"), false),
                };
                if what > 0 {
                    stack.push(is_dropped);
                }
                prop_assert_eq!(redactor.apply(thread, &record).is_none(), is_dropped);
            }
        }
    }
}
