//! Prints the progress of the sample app from the agent's health reports.

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

    /// Prints the changes.
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
    (host.push_summary)(&mut text, summary);
    text
}
