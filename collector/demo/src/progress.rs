//! Progress of the sample app, by the agent's health reports: what is new is printed.

use crate::{Program, bytes};
use std::fmt::Write;
use std::time::Duration;
use tracetee_fleet::report::grouped;
use tracetee_protocol::{CaptureReport, Health, HealthReport, Summary};

/// Facts of the app's health report printed so far.
pub(crate) struct Progress<'a> {
    host: &'a Program<'a>,
    state: String,
    has_recorded: bool,
    config: Option<u64>,
    delivered: u64,
    pub(crate) captures: Vec<CaptureReport>,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(host: &'a Program<'a>) -> Self {
        Self {
            host,
            state: String::new(),
            has_recorded: false,
            config: None,
            delivered: 0,
            captures: Vec::new(),
        }
    }

    /// Says what is new.
    pub(crate) fn tell(&mut self, stats: &HealthReport, after: Duration) {
        let Some(control) = &stats.control else { return };
        let print = self.host.print;
        let at = format!("{:>4.1} s", after.as_secs_f64());
        let config = control.config.as_ref().map(|config| config.seq);
        if config != self.config {
            print(&format!("   {at}  configuration {} is in force\n", config.unwrap_or(0)));
            self.config = config;
        }
        if let Some(capture) = &control.last_capture
            && self.captures.last().is_none_or(|last| last.path != capture.path)
        {
            let CaptureReport { window, why, .. } = capture;
            print(&format!("   {at}  window {window} is kept: {why}\n"));
            if window == "start-up" {
                print(&recorded(self.host, &capture.summary));
            }
            self.captures.push(capture.clone());
        }
        if control.state != self.state {
            // Only the agent itself was loaded before the first recording.
            if control.state != "off" && !std::mem::replace(&mut self.has_recorded, true) {
                print(&hooked(self.host, &stats.health));
            }
            print(&format!("   {at}  {}: {}\n", control.state, control.reason));
            self.state.clone_from(&control.state);
        }
        if control.upload.delivered > self.delivered
            && let Some(last) = &control.upload.last
        {
            let (window, size) = (&last.window, bytes(last.bytes));
            print(&format!("   {at}  window {window} ({size}) is uploaded: {}\n", last.outcome));
            self.delivered = control.upload.delivered;
        }
    }
}

fn hooked(host: &Program<'_>, health: &Health) -> String {
    let mut text = format!(
        "   hooked {} slots of write in {} libraries\n",
        health.hooked_slots, health.hooked_libraries
    );
    for atrace in &health.atrace {
        let marker = (host.marker)(atrace);
        let _ =
            writeln!(text, "   found libcutils ({}), enabled its tags; {marker}", atrace.found_by);
    }
    text
}

fn recorded(host: &Program<'_>, summary: &Summary) -> String {
    let mut text = format!(
        "   {} records over {}.{} s from {} threads, {} dropped\n",
        grouped(summary.recorded()),
        summary.duration_ns / 1_000_000_000,
        summary.duration_ns / 100_000_000 % 10,
        summary.threads.len(),
        grouped(summary.lost()),
    );
    push_kinds(&mut text, summary);
    push_threads(&mut text, summary);
    for line in (host.losses)(summary) {
        let _ = writeln!(text, "   {line}");
    }
    text
}

fn push_kinds(text: &mut String, summary: &Summary) {
    const NAMES: [(char, &str); 9] = [
        ('B', "begin"),
        ('E', "end"),
        ('S', "async begin"),
        ('F', "async end"),
        ('C', "counter"),
        ('I', "instant"),
        ('N', "instant on a track"),
        ('G', "async begin on a track"),
        ('H', "async end on a track"),
    ];
    for (kind, name) in NAMES {
        let count = summary.records.get(&kind).copied().unwrap_or(0);
        let _ = writeln!(text, "     {kind}  {name:<24}{:>8}", grouped(count));
    }
}

fn push_threads(text: &mut String, summary: &Summary) {
    const SHOWN: usize = 6;
    let mut threads: Vec<_> = summary.threads.iter().collect();
    threads.sort_by_key(|thread| std::cmp::Reverse(thread.records));
    for thread in threads.iter().take(SHOWN) {
        let _ = writeln!(
            text,
            "     {:<16} tid {:<8}{:>12} records",
            thread.name,
            thread.tid,
            grouped(thread.records)
        );
    }
    if threads.len() > SHOWN {
        let more = threads.len() - SHOWN;
        let _ = writeln!(text, "     … and {more} binder and worker threads that have exited");
    }
}
