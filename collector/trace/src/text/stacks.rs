//! The agent's samples of the main thread's callstack: instants whose details are the sample (docs/TRACE-FORMAT.md).
//!
//! A sample names its functions by short codes; instants before it define the codes. A sample has the time at which the main
//! thread was sampled, which is before the time of its line.

use crate::builder::Builder;
use crate::model::Trace;
use crate::names::NameId;
use crate::samples::{Sample, StackFrame};
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use tracetee_protocol::notes::{STACK, STACK_NAMES};

/// Limits of a trace's codes and of a sample's frames. The agent's are far below.
const MAX_CODES: usize = 1 << 16;
const MAX_FRAMES: usize = 256;
/// Frames whose function a rule of redaction, a time window or a full recorder has removed.
const UNNAMED: &str = "frames of stack samples, whose function is not in the capture";
/// Instants that have the name of a sample, but not its form.
const WRONG: &str = "stack samples that do not follow docs/TRACE-FORMAT.md";
/// Function of such frames.
const NO_FUNCTION: &[u8] = b"(not recorded)";

/// Functions by process and code.
#[derive(Debug, Default)]
pub(super) struct StackNames(HashMap<u32, HashMap<String, NameId>>);

/// Details of a sample. Its times are before that of the line.
#[derive(Deserialize)]
struct Details<'a> {
    tid: u32,
    /// Codes of the functions, the innermost first.
    #[serde(borrow)]
    stack: Cow<'a, str>,
    #[serde(default)]
    ago_us: u64,
    /// Time for which the sample stands.
    #[serde(default)]
    for_us: u64,
}

impl StackNames {
    /// Takes an instant; false if it is neither a sample nor the names of samples.
    pub(super) fn take(
        &mut self,
        builder: &mut Builder,
        pid: u32,
        at_ns: u64,
        name: &[u8],
        args: NameId,
    ) -> bool {
        let taken = if name == STACK_NAMES.as_bytes() {
            self.name(builder, pid, args)
        } else if name == STACK.as_bytes() {
            self.sample(builder, pid, at_ns, args)
        } else {
            return false;
        };
        builder.not_read(WRONG, taken.is_none().into());
        true
    }

    fn name(&mut self, builder: &mut Builder, pid: u32, args: NameId) -> Option<()> {
        let json = builder.trace.names.text(args).to_owned();
        let functions: BTreeMap<Cow<'_, str>, Cow<'_, str>> = serde_json::from_str(&json).ok()?;
        let known = self.0.entry(pid).or_default();
        for (code, function) in functions {
            if known.len() < MAX_CODES {
                let function = builder.trace.names.id(function.as_bytes());
                known.insert(code.into_owned(), function);
            }
        }
        Some(())
    }

    fn sample(&self, builder: &mut Builder, pid: u32, at_ns: u64, args: NameId) -> Option<()> {
        let json = builder.trace.names.text(args).to_owned();
        let details: Details<'_> = serde_json::from_str(&json).ok()?;
        let at_ns = at_ns.saturating_sub(details.ago_us.saturating_mul(1000));
        let known = self.0.get(&pid);
        let codes: Vec<&str> = details.stack.split_ascii_whitespace().take(MAX_FRAMES).collect();
        let Trace { names, stacks, .. } = &mut builder.trace;
        let mut unnamed = 0;
        let stack = stacks.stack(codes.into_iter().map(|code| {
            let function = known.and_then(|known| known.get(code).copied());
            unnamed += u64::from(function.is_none());
            let function = function.unwrap_or_else(|| names.id(NO_FUNCTION));
            StackFrame { function, ..StackFrame::default() }
        }));
        builder.not_read(UNNAMED, unnamed);
        let since_ns = at_ns.saturating_sub(details.for_us.saturating_mul(1000));
        let tid = details.tid;
        builder.sample(Sample { since_ns, pid, tid, stack, ..Sample::new(at_ns) });
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use crate::model::Trace;
    use crate::text::read;

    /// Reads instants of a sampler's thread, with these details, a millisecond apart.
    fn parsed(instants: &[(&str, &str)]) -> Trace {
        let mut text = "# tracer: nop\n".to_owned();
        for (index, (name, args)) in instants.iter().enumerate() {
            let at = format!("1.{:03}000", index + 1);
            text.push_str(&format!("#@ {{\"args\":{args}}}\n"));
            text.push_str(&format!(" s-6 (5) [000] ...1 {at}: tracing_mark_write: I|5|{name}\n"));
        }
        read(text.as_bytes()).unwrap()
    }

    fn functions(trace: &Trace, sample: usize) -> Vec<&str> {
        let frames = trace.stacks.frames(trace.samples[sample].stack);
        frames.map(|frame| trace.names.text(frame.function)).collect()
    }

    #[test]
    fn samples_are_of_the_main_thread_and_of_their_own_time() {
        let trace = parsed(&[
            ("tracetee: stack names", r#"{"a":"com.app.Feed.bind","b":"android.os.Looper.loop"}"#),
            ("tracetee: stack", r#"{"tid":5,"stack":"a b","ago_us":300,"for_us":33000}"#),
            ("tracetee: stack", r#"{"tid":5,"stack":"b","for_us":20000}"#),
        ]);
        assert_eq!(functions(&trace, 0), ["com.app.Feed.bind", "android.os.Looper.loop"]);
        assert_eq!(functions(&trace, 1), ["android.os.Looper.loop"]);
        let row = |sample: &crate::Sample| (sample.pid, sample.tid, sample.since_ns, sample.at_ns);
        let samples: Vec<_> = trace.samples.iter().map(row).collect();
        assert_eq!(
            samples,
            [(5, 5, 968_700_000, 1_001_700_000), (5, 5, 983_000_000, 1_003_000_000)]
        );
        assert!(trace.instants.is_empty() && trace.losses.unread.is_empty());
    }

    #[test]
    fn a_function_that_a_rule_has_removed_is_a_frame_still_and_is_counted() {
        let trace = parsed(&[
            ("tracetee: stack names", r#"{"b":"android.os.Looper.loop"}"#),
            ("tracetee: stack", r#"{"tid":5,"stack":"a b"}"#),
        ]);
        assert_eq!(functions(&trace, 0), ["(not recorded)", "android.os.Looper.loop"]);
        assert_eq!(trace.losses.unread[super::UNNAMED], 1);
    }

    #[test]
    fn wrong_samples_are_counted_and_large_ones_cut() {
        let many =
            format!(r#"{{"tid":5,"stack":"{}","for_us":18446744073709552}}"#, "a ".repeat(999));
        let trace = parsed(&[
            ("tracetee: stack", r#"{"stack":"a b"}"#),
            ("tracetee: stack", r#"{"tid":"5","stack":"a"}"#),
            ("tracetee: stack names", r#"{"a":1}"#),
            ("tracetee: stack", &many),
            ("tracetee: stacks", "{}"),
        ]);
        assert_eq!(trace.losses.unread[super::WRONG], 3);
        assert_eq!((functions(&trace, 0).len(), trace.samples[0].since_ns), (256, 0));
        assert_eq!(trace.instants.len(), 1);
    }

    proptest::proptest! {
        #[test]
        fn no_details_are_too_much_for_it(names in "[a-c\":,{} ]{0,40}", stack in "[a-c ]{0,40}", time: u64) {
            let sample = format!(r#"{{"tid":5,"stack":"{stack}","ago_us":{time},"for_us":{time}}}"#);
            let trace = parsed(&[("tracetee: stack names", &names), ("tracetee: stack", &sample)]);
            proptest::prop_assert_eq!(trace.samples.len(), 1);
        }
    }
}
