//! What is said after a run: what the trace holds, or the probable cause of its absence.

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
            let _ = writeln!(text, "only processes that it started were traced: {program}");
        }
    }
    for line in losses(&recovered.summary) {
        let _ = writeln!(text, "{line}");
    }
    if recovered.unfinished > 0 && recovered.summary.recorded() > 0 {
        let _ = writeln!(
            text,
            "{} of {} processes were killed, replaced by exec or are still running; what they \
             had recorded is in the trace",
            recovered.unfinished,
            recovered.processes.len()
        );
    }
    for reason in &recovered.failures {
        let _ = writeln!(text, "not traced: {}", reason.trim_start_matches("tracetee: "));
    }
    for reason in &recovered.unreadable {
        let _ = writeln!(text, "left out: {reason}");
    }
    text
}

fn written(summary: &Summary, output: &Path) -> String {
    let is_zstd = output.extension().is_some_and(|extension| extension == "zst");
    let who_reads_it = if is_zstd {
        format!(
            "\nPerfetto opens .zst from v58 on; for others: tracetee convert {} -o {}",
            output.display(),
            output.with_extension("gz").display()
        )
    } else {
        String::new()
    };
    format!(
        "wrote {} ({}; {} of text): {} records of {} threads in {} processes over {}.{:03} s{who_reads_it}",
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

/// What the trace lacks, a line each; nothing where it lacks nothing.
pub(crate) fn losses(summary: &Summary) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = |count: u64, what: &str| {
        if count > 0 {
            lines.push(format!("{} {what}", grouped(count)));
        }
    };
    for (reason, &count) in &summary.dropped {
        line(count, &format!("records dropped: {}", reason.replace('_', " ")));
    }
    line(summary.stray_ends, "ends without a begin left out");
    line(summary.closed_sections, "sections were open at the end and were closed");
    line(summary.gaps, "places where a thread's records are missing in the middle");
    line(summary.damaged_blocks, "blocks of a recorder's file were not readable to their end");
    line(summary.clock_jumps, "jumps of the clock: records near them may be 250 ms off");
    line(summary.malformed, "records with wrong fields left out");
    line(summary.left_out, "records left out that catapult does not know");
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
            return "the agent was not loaded. Does something clear LD_PRELOAD (env -i, sudo), or \
                    does the program run with raised capabilities?"
                .to_owned();
        }
        return "the agent was loaded but could not start".to_owned();
    };
    let mut text = match recovered.processes.iter().flat_map(|health| &health.atrace).next() {
        Some(atrace) => format!(
            "libcutils was found ({}), its tags were on, but nothing called atrace",
            atrace.found_by
        ),
        None => "the program wrote no atrace record (B|pid|name …) to a trace_marker file, and \
                 has no libcutils"
            .to_owned(),
    };
    if recovered.processes.iter().all(|health| health.hooked_slots == 0) {
        text.push_str("; no slot of write could be hooked");
    }
    let _ = write!(
        text,
        ". The agent was in {} process{}; in {} (pid {}) it hooked {} slots of write in {} libraries",
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
