//! Ninja's log of a build (`.ninja_log`): a slice for each command, on as many threads as ran at once. As in trace_processor, a
//! command follows the one that ended last before it, and has the names of all its outputs.

use crate::builder::Builder;
use crate::error::Error;
use crate::model::{MAX_NS, Trace};
use crate::names::NameId;
use crate::text;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::io::{BufRead, Read};

pub(crate) const MAGIC: &[u8] = b"# ninja log v";
/// Limit of a log; one of 100,000 commands has 10 MB.
const MAX_BYTES: u64 = 64 << 20;
/// The build, as if it was a process.
const PID: u32 = 1;

/// Begin, end, hash.
type Command<'a> = (u64, u64, &'a [u8]);

/// Reads the commands.
///
/// # Errors
/// [`Error::Broken`] if the log cannot be read, [`Error::NoTrace`] if it has no commands.
pub(crate) fn read<R: BufRead>(log: R) -> Result<Trace, Error> {
    let mut bytes = Vec::new();
    let read = log.take(MAX_BYTES).read_to_end(&mut bytes);
    let at = bytes.len() as u64;
    read.map_err(|error| Error::Broken { at, error })?;
    let mut builder = Builder::default();
    if at == MAX_BYTES {
        builder.trace.losses.truncated = Some((at, format!("more than {MAX_BYTES} bytes")));
    }
    let mut commands: Vec<(Command<'_>, Vec<u8>)> = Vec::new();
    for line in bytes.split(|&byte| byte == b'\n') {
        let losses = &mut builder.trace.losses;
        losses.lines += 1;
        let Some((command, output)) = command(line) else {
            if !line.is_empty() && !line.starts_with(b"#") {
                losses.bad(losses.lines, "no times, output and hash of a command", line);
            }
            continue;
        };
        match commands.last_mut().filter(|(last, _)| *last == command) {
            Some((_, outputs)) => outputs.extend([b" ", output].concat()),
            None => commands.push((command, output.to_owned())),
        }
    }
    commands.sort_by_key(|&((start_ns, ..), _)| start_ns);
    // When each thread's last command ends.
    let mut ends = BTreeSet::new();
    let mut threads = Vec::new();
    for ((start_ns, end_ns, _), outputs) in commands {
        let ended = ends.range(..=(start_ns, Reverse(usize::MIN))).next_back().copied();
        let index = ended.map_or(threads.len(), |(_, Reverse(index))| index);
        match ended {
            Some(last) => _ = ends.remove(&last),
            None => {
                let tid = u32::try_from(index + 1).unwrap_or(u32::MAX);
                let live = builder.new_thread(tid, Some(PID));
                builder.name(live, start_ns, b"Worker");
                threads.push(live);
            }
        }
        ends.insert((end_ns, Reverse(index)));
        let live = threads[index];
        let name = builder.trace.names.id(&outputs);
        let start_ns = builder.at(live, start_ns);
        if let Some(slice) = builder.begin(live, start_ns, name, NameId::NONE) {
            let end_ns = builder.at(live, end_ns);
            builder.end(live, end_ns);
            builder.complete(live, slice, true);
        }
    }
    if threads.is_empty() {
        return Err(Error::NoTrace("Ninja's log has no commands".to_owned()));
    }
    let name = builder.trace.names.id(b"Build");
    builder.process_name(PID, name);
    Ok(builder.finish())
}

/// Reads a line: begin and end in ms, time of the output, its name, hash. Returns the command and the output.
fn command(line: &[u8]) -> Option<(Command<'_>, &[u8])> {
    let mut fields = line.trim_ascii_end().split(|&byte| byte == b'\t');
    let mut time =
        || text::decimal(fields.next()?)?.checked_mul(1_000_000).filter(|&ns| ns <= MAX_NS);
    let (start_ns, end_ns) = (time()?, time()?);
    let (output, hash) = (fields.nth(1)?, fields.next()?);
    (start_ns <= end_ns).then_some(((start_ns, end_ns, hash), output))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, read_any};
    use std::io::Cursor;

    /// Slices as `tid begin..end name`, ms.
    fn slices(log: &str) -> Vec<String> {
        let trace = read_any(Cursor::new(log.as_bytes().to_vec())).unwrap();
        let of_thread = |thread: &crate::Thread| {
            let slices = thread.slices.iter().map(|slice| {
                let [start, end] = [slice.start_ns, slice.end_ns].map(|ns| ns / 1_000_000);
                format!("{} {start}..{end} {}", thread.tid, trace.names.text(slice.name))
            });
            slices.collect::<Vec<_>>()
        };
        trace.threads.values().flat_map(of_thread).collect()
    }

    #[test]
    fn commands_are_on_as_few_threads_as_ran_at_once() {
        let log = "# ninja log v5\n10\t30\t0\tb.o\tb\n0\t20\t0\ta.o\ta\n0\t20\t0\ta.d\ta\n\
            # ninja log v5\n40\t45\t7\tof the\tf\n30\t50\t0\tc\tc\n20\t20\t0\td\td\n";
        let expected =
            ["1 0..20 a.o a.d", "1 20..20 d", "1 40..45 of the", "2 10..30 b.o", "2 30..50 c"];
        assert_eq!(slices(log), expected);
        assert_eq!(slices(&log.replace('\n', "\r\n").replace("v5", "v7")), expected);
        let trace = read_any(Cursor::new(log.as_bytes().to_vec())).unwrap();
        assert_eq!(trace.names.text(trace.processes[&PID].name), "Build");
        assert_eq!((trace.losses.bad_lines, trace.losses.out_of_order), (0, 0));
    }

    #[test]
    fn wrong_lines_are_counted_and_a_log_without_commands_is_refused() {
        let log =
            "# ninja log v6\n5\t1\t0\tback\ta\n-1\t2\t0\tx\ta\n1\t2\t0\tno hash\n1\t2\t0\tx\tf\n";
        let trace = read_any(Cursor::new(log.as_bytes().to_vec())).unwrap();
        assert_eq!((trace.slice_count(), trace.losses.bad_lines), (1, 3));
        assert_eq!(trace.losses.shown[0].number, 2);
        let error = read_any(Cursor::new(MAGIC.to_vec())).unwrap_err().to_string();
        assert!(error.contains("no commands"), "{error}");
        assert_eq!(Kind::of(log.as_bytes()), Kind::Ninja);
    }

    proptest::proptest! {
        #[test]
        fn no_log_is_too_much_for_it(log in "([0-9]{1,20}\t|[a-f]|\n){0,60}") {
            let _ = read(log.as_bytes());
        }
    }
}
