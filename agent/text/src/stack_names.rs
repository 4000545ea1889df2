//! Names of sampled functions from before a time window, for the samples in it.
//!
//! The app's sampler names a function once in a row of samples (`docs/TRACE-FORMAT.md`), which may have begun before the window. A
//! sample in the window gets the names that it needs; others are not written.

use std::collections::HashMap;
use tracetee_protocol::notes::{STACK, STACK_NAMES};
use tracetee_recorder::details::{Detail, Details, Encoder, MAX_DETAIL_BYTES, Value};
use tracetee_recorder::layout::Form;
use tracetee_recorder::record::{Kind, Record};
use tracetee_recorder::rich::stored;
use tracetee_recorder::stored::parse_stored;

/// Names that are known; the sampler's are fewer.
const MAX_NAMES: usize = 8192;
/// Bytes of an argument besides its key and text, and of the item that counts omitted arguments.
const HEAD_BYTES: usize = 8;

/// Functions by the sampler's thread and the function's code.
#[derive(Default)]
pub(crate) struct StackNames(HashMap<(usize, Vec<u8>), Vec<u8>>);

impl StackNames {
    /// Processes a record before the window.
    pub(crate) fn look_at(&mut self, thread: usize, record: &Record<'_>, details: Details<'_>) {
        if !is_instant(record, STACK_NAMES) {
            return;
        }
        for detail in details {
            if let Detail::Argument(code, Value::Text(function)) = detail
                && self.0.len() < MAX_NAMES
            {
                self.0.insert((thread, code.to_vec()), function.to_vec());
            }
        }
    }

    /// Returns records with the names from before the window that its records need.
    pub(crate) fn missing(&mut self, thread: usize, form: Form, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut scratch = Vec::new();
        if self.0.is_empty() || form != Form::Rich {
            return Vec::new();
        }
        let Some((record, details)) = parse_stored(form, bytes, 0, &mut scratch) else {
            return Vec::new();
        };
        let mut records = Records::default();
        for detail in details {
            match detail {
                Detail::Argument(b"stack", Value::Text(codes)) if is_instant(&record, STACK) => {
                    for code in codes.split(|&byte| byte == b' ') {
                        if let Some(function) = self.0.remove(&(thread, code.to_vec())) {
                            records.add(code, &function);
                        }
                    }
                }
                // A name that occurs in the window itself.
                Detail::Argument(code, _) if is_instant(&record, STACK_NAMES) => {
                    self.0.remove(&(thread, code.to_vec()));
                }
                _ => {}
            }
        }
        records.finish()
    }
}

fn is_instant(record: &Record<'_>, name: &str) -> bool {
    matches!(*record, Record::Instant { name: its, .. } if its == name.as_bytes())
}

/// Records with names.
#[derive(Default)]
struct Records {
    done: Vec<Vec<u8>>,
    encoder: Encoder,
    used: usize,
}

impl Records {
    fn add(&mut self, code: &[u8], function: &[u8]) {
        let bytes = HEAD_BYTES + code.len() + function.len();
        if self.used + bytes > MAX_DETAIL_BYTES {
            self.end();
        }
        self.used += bytes;
        self.encoder.argument(code, Value::Text(function));
    }

    fn end(&mut self) {
        if self.used > 0 {
            let details = self.encoder.finish();
            self.done.push(stored(Kind::Instant, 0, details, STACK_NAMES.as_bytes()));
            (self.encoder, self.used) = (Encoder::default(), 0);
        }
    }

    fn finish(mut self) -> Vec<Vec<u8>> {
        self.end();
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLER: usize = 3;

    fn names(functions: &[(&str, &str)]) -> Vec<u8> {
        let mut encoder = Encoder::default();
        for (code, function) in functions {
            encoder.argument(code.as_bytes(), Value::Text(function.as_bytes()));
        }
        stored(Kind::Instant, 0, encoder.finish(), STACK_NAMES.as_bytes())
    }

    fn sample(stack: &str) -> Vec<u8> {
        let mut encoder = Encoder::default();
        encoder.argument(b"tid", Value::Int(5));
        encoder.argument(b"stack", Value::Text(stack.as_bytes()));
        stored(Kind::Instant, 0, encoder.finish(), STACK.as_bytes())
    }

    fn before(known: &mut StackNames, bytes: &[u8]) {
        let mut scratch = Vec::new();
        let (record, details) = parse_stored(Form::Rich, bytes, 0, &mut scratch).unwrap();
        known.look_at(SAMPLER, &record, details);
    }

    #[test]
    fn a_sample_in_the_window_has_the_names_that_it_needs_once() {
        let mut known = StackNames::default();
        before(&mut known, &names(&[("a", "Feed.bind"), ("b", "Looper.loop"), ("c", "secret")]));
        before(&mut known, &sample("a b"));
        let mut missing = |bytes: &[u8]| known.missing(SAMPLER, Form::Rich, bytes);
        assert!(missing(&names(&[("d", "Feed.fit")])).is_empty());
        assert_eq!(missing(&sample("d b x")), [names(&[("b", "Looper.loop")])]);
        assert!(missing(&sample("d b")).is_empty());
        // A name in the window is the newer one.
        assert!(missing(&names(&[("a", "Feed.other")])).is_empty());
        assert!(missing(&sample("a")).is_empty());
        assert!(known.missing(SAMPLER + 1, Form::Rich, &sample("c")).is_empty(), "other thread");
    }

    #[test]
    fn names_without_room_in_a_record_are_in_another_one() {
        let mut known = StackNames::default();
        let long = "x".repeat(160);
        let codes: Vec<String> = (b'a'..=b'z').map(|code| char::from(code).to_string()).collect();
        for code in &codes {
            before(&mut known, &names(&[(code, &long)]));
        }
        let records = known.missing(SAMPLER, Form::Rich, &sample(&codes.join(" ")));
        let mut found = 0;
        for bytes in &records {
            let mut scratch = Vec::new();
            let (_, details) = parse_stored(Form::Rich, bytes, 0, &mut scratch).unwrap();
            for detail in details {
                assert!(
                    matches!(detail, Detail::Argument(_, Value::Text(text)) if text == long.as_bytes())
                );
                found += 1;
            }
        }
        assert_eq!((found, records.len()), (26, 6));
    }
}
