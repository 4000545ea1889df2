//! The records of a method trace, a line each, as `dmtracedump -o` shows them.

use super::Entry;
use std::collections::HashMap;
use std::io::{self, Write};
use tracetee_trace::method::{Action, Method, MethodTrace};

/// Dots before an outermost method.
const BASE: usize = 3;
/// More than any screen shows; deeper calls get the same indentation.
const MAX_DOTS: usize = 4000;

/// Writes the records.
///
/// # Errors
/// Errors of `out`.
pub fn dump(trace: &MethodTrace, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "VERSION: {}", trace.version)?;
    writeln!(out, "Threads ({}):", trace.threads.len())?;
    let mut threads: Vec<&(u16, String)> = trace.threads.iter().collect();
    threads.sort_by_key(|(id, _)| *id);
    for (id, name) in threads {
        writeln!(out, "{id:2} {name}")?;
    }
    writeln!(out, "Trace (threadID action usecs class.method signature):")?;
    let text = |method: &Method| (method.id, Entry::from_method(method).text());
    let texts: HashMap<u32, String> = trace.methods.iter().map(text).collect();
    let mut depths: HashMap<u16, usize> = HashMap::new();
    for record in &trace.records {
        let depth = depths.entry(record.thread).or_default();
        let action = match record.action {
            Action::Enter => "ent",
            Action::Exit => "xit",
            Action::Unroll => "unr",
        };
        if record.action != Action::Enter {
            *depth = depth.saturating_sub(1);
        }
        let dots = (BASE + *depth).min(MAX_DOTS);
        write!(out, "{:2} {action}  {:8} {:.<dots$}", record.thread, record.time_us, "")?;
        match texts.get(&record.method) {
            Some(text) => writeln!(out, "{text}")?,
            None => writeln!(out, "???.??? methodId: {:#x}", record.method)?,
        }
        if record.action == Action::Enter {
            *depth += 1;
        }
    }
    Ok(())
}
