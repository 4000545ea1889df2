//! The report after a run: the content of the trace, or the probable cause of an empty one.

use super::program::Program;
use crate::units::{bytes, grouped};
use std::fmt::Write;
use std::path::Path;
use tracetee_protocol::Summary;
use tracetee_protocol::health::Recovered;

/// The text, several lines.
pub(crate) fn report(recovered: &Recovered, output: &Path, program: &Program) -> String {
    let mut text = String::new();
    if recovered.summary.recorded() == 0 {
        let _ = writeln!(text, "no trace was written: {}", why_empty(recovered, program));
    } else {
        let _ = writeln!(text, "{}", written(&recovered.summary, output));
        if let Some(program) = &program.obstacle {
            let _ = writeln!(text, "traced only child processes: {program}");
        }
    }
    for line in losses(&recovered.summary) {
        let _ = writeln!(text, "{line}");
    }
    if recovered.unfinished > 0 && recovered.summary.recorded() > 0 {
        let _ = writeln!(
            text,
            "{} of {} processes were killed, replaced by exec, or are still running; the trace contains their \
             records up to then",
            recovered.unfinished,
            recovered.processes.len()
        );
    }
    for reason in &recovered.failures {
        let reason = match reason.trim_start_matches("tracetee: ") {
            "" => {
                "the agent could not start in a process, nor write the reason. Check the space of the trace's file \
                   system, and the process's limit of file sizes (ulimit -f)"
            }
            reason => reason,
        };
        let _ = writeln!(text, "not traced: {reason}");
    }
    for reason in &recovered.unreadable {
        let _ = writeln!(text, "skipped: {reason}");
    }
    text
}

fn written(summary: &Summary, output: &Path) -> String {
    let is_zstd = output.extension().is_some_and(|extension| extension == "zst");
    let who_reads_it = if is_zstd {
        format!(
            "\nPerfetto reads .zst since v58; for other tools run: tracetee convert {} -o {}",
            output.display(),
            output.with_extension("gz").display()
        )
    } else {
        String::new()
    };
    format!(
        "wrote {} ({}; {} of text): {} records from {} threads in {} processes over {}.{:03} s{who_reads_it}",
        output.display(),
        bytes(summary.file_bytes),
        bytes(summary.text_bytes),
        grouped(summary.recorded()),
        summary.threads.len(),
        summary.processes,
        summary.duration_ns / 1_000_000_000,
        summary.duration_ns / 1_000_000 % 1000,
    )
}

/// Lists losses of the trace, a line each.
pub(crate) fn losses(summary: &Summary) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = |count: u64, kind: &str| {
        if count > 0 {
            lines.push(format!("{} {kind}", grouped(count)));
        }
    };
    for (reason, &count) in &summary.dropped {
        line(count, &format!("records dropped: {}", reason.replace('_', " ")));
    }
    line(summary.stray_ends, "ends without a begin, left out");
    line(summary.closed_sections, "sections without an end, closed at the end of the trace");
    line(summary.gaps, "gaps in the records of a thread");
    line(summary.damaged_blocks, "damaged blocks in a recorder file");
    line(summary.clock_jumps, "clock jumps; timestamps near them may be off by 250 ms");
    line(summary.malformed, "malformed records, left out");
    lines
}

/// The probable cause first.
pub(crate) fn why_empty(recovered: &Recovered, program: &Program) -> String {
    if let Some(obstacle) = &program.obstacle {
        return obstacle.clone();
    }
    if recovered.summary.lost() > 0 {
        return "all records were dropped".to_owned();
    }
    let Some(health) = recovered.processes.first() else {
        if recovered.failures.is_empty() {
            return "the agent was not loaded. Check that nothing clears LD_PRELOAD (env -i, sudo), and that \
                    the program does not run with raised capabilities"
                .to_owned();
        }
        return "the agent was loaded but could not start".to_owned();
    };
    let mut text = match recovered.processes.iter().flat_map(|health| &health.atrace).next() {
        Some(atrace) => format!(
            "libcutils was found ({}) and its tags were enabled, but nothing called atrace",
            atrace.found_by
        ),
        None => "the program has no libcutils and wrote no atrace record (B|pid|name …) to a \
                 trace_marker file by write(); stdio, writev() and pwrite() are not traced"
            .to_owned(),
    };
    if recovered.processes.iter().all(|health| health.hooked_slots == 0) {
        text.push_str("; the agent could not hook any slot of write");
    }
    let _ = write!(
        text,
        ". The agent was loaded in {} process{}; in {} (pid {}) it hooked {} slots of write in {} libraries",
        recovered.processes.len(),
        if recovered.processes.len() == 1 { "" } else { "es" },
        health.program,
        health.pid,
        health.hooked_slots,
        health.hooked_libraries,
    );
    for reason in &health.not_hooked {
        let _ = write!(text, "\nnot hooked: {reason}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_could_not_write_its_reason_gets_a_probable_one() {
        let failures = vec![String::new(), "tracetee: sh: no memory".to_owned()];
        let recovered = Recovered { failures, ..Recovered::default() };
        let program = Program { path: "/bin/sh".into(), obstacle: None };
        let text = report(&recovered, Path::new("sh.ftrace"), &program);
        let reasons: Vec<_> =
            text.lines().filter_map(|line| line.strip_prefix("not traced: ")).collect();
        assert!(reasons[0].contains("ulimit -f"), "{text}");
        assert_eq!(reasons[1..], ["sh: no memory"]);
    }
}
