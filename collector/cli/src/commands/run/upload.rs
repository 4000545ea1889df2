//! `tracetee run --upload`: the trace goes to a collector, now or with the next run.
//!
//! It lies in a spool of the user's, one for each collector, so that what could not be sent waits
//! there whatever becomes of this process.

use crate::args::RunArgs;
use crate::units::bytes;
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};
use tracetee_protocol::{CaptureMeta, record};
use tracetee_server::{Right, first_token};
use tracetee_uploader::http::Http;
use tracetee_uploader::policy::Rules;
use tracetee_uploader::{Conditions, Endpoint, NetState, Now, Quota, Spool, Uploader};

/// Text in one frame of a capture.
const FRAME_TEXT_BYTES: usize = 256 * 1024;
/// A desk has room, and nobody pays by the byte.
const QUOTA: Quota = Quota {
    bytes: 4 << 30,
    captures: 1000,
    capture_bytes: 1 << 30,
    age: std::time::Duration::from_secs(30 * 24 * 3600),
};

/// Destination of traces, validated before the program runs.
#[derive(Debug)]
pub(super) struct Upload {
    spool: Spool,
    endpoint: Endpoint,
    http: Http,
    /// Version of all traces in the spool.
    version: Option<String>,
}

impl Upload {
    /// `None` when nothing is to be sent.
    pub(super) fn new(args: &RunArgs) -> Result<Option<Self>> {
        let Some(url) = &args.upload else { return Ok(None) };
        let token = match &args.token_file {
            Some(path) => Some(first_token(path, Right::Send, None)?.1),
            None => None,
        };
        let endpoint = Endpoint::new(url, token.as_deref(), false, args.cleartext)
            .map_err(|error| anyhow::anyhow!("--upload: {error}"))?;
        let http = Http::new(args.ca_file.as_deref())?;
        let version = args.app_version.clone();
        let spool = Spool::open(&spool_directory(endpoint.url(), version.as_deref())?)?;
        Ok(Some(Self { spool, endpoint, http, version }))
    }

    /// Takes the trace in and sends it, and what waits from earlier runs. Gives what came of it, for
    /// people.
    pub(super) fn send(mut self, trace: &Path, program: &Path) -> Result<String> {
        let label = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let recording = self.spool.begin(&label, 0, now())?;
        let id = recording.id();
        copy(trace, recording.path())
            .with_context(|| format!("cannot copy the trace to {}", recording.path().display()))?;
        let size = self.spool.seal(recording, &QUOTA, now())?.bytes;
        if let Some(recovery) = self.spool.lock_recovery() {
            self.spool.recover(&recovery, &QUOTA, now());
        }
        let device = CaptureMeta {
            os: Some(std::env::consts::OS.to_owned()),
            arch: Some(std::env::consts::ARCH.to_owned()),
            version_name: self.version,
            agent: Some(env!("CARGO_PKG_VERSION").to_owned()),
            other: [("program".to_owned(), record::to_json(&program.to_owned()))].into(),
            ..CaptureMeta::default()
        };
        let conditions = Conditions {
            net: NetState::MAINS,
            rules: Rules { bytes_per_day: u64::MAX, ..Rules::default() },
            quota: QUOTA,
            poll: None,
            urgent: true,
            ..Conditions::default()
        };
        let (root, url) = (self.spool.root().to_owned(), self.endpoint.url().to_owned());
        let mut uploader = Uploader::new(self.spool, self.endpoint, device);
        let pass = uploader.pass(&mut self.http, &conditions, &now, &AtomicBool::new(false));
        let status = uploader.status(now());
        let mut text = String::new();
        if pass.delivered.contains(&id) {
            let _ = writeln!(text, "uploaded to {url} as {id} ({})", bytes(size));
        } else {
            let outcome =
                status.last.map_or_else(|| "no attempt was made".to_owned(), |last| last.outcome);
            let _ = writeln!(text, "not uploaded to {url}: {}", pass.held.unwrap_or(outcome));
        }
        let others = pass.delivered.iter().filter(|other| **other != id).count();
        if others > 0 {
            let _ = writeln!(text, "uploaded {others} traces of earlier runs");
        }
        if status.waiting > 0 {
            let _ = writeln!(
                text,
                "{} traces wait in {}; the next run with these options sends them",
                status.waiting,
                root.display()
            );
        }
        Ok(text)
    }
}

/// A trace as a capture's body: as it is, or compressed.
fn copy(trace: &Path, to: &Path) -> Result<()> {
    if trace.extension().is_some_and(|extension| extension == "zst") {
        std::fs::copy(trace, to)?;
        return Ok(());
    }
    let mut text = BufReader::with_capacity(FRAME_TEXT_BYTES, File::open(trace)?);
    let mut out = File::create(to)?;
    let (mut frame, mut line) = (Vec::with_capacity(FRAME_TEXT_BYTES), Vec::new());
    loop {
        line.clear();
        let is_end = text.read_until(b'\n', &mut line)? == 0;
        if !frame.is_empty() && (is_end || frame.len() + line.len() > FRAME_TEXT_BYTES) {
            out.write_all(&zstd::bulk::compress(&frame, 3)?)?;
            frame.clear();
        }
        if is_end {
            return Ok(());
        }
        frame.extend_from_slice(&line);
    }
}

/// `${XDG_STATE_HOME:-~/.local/state}/tracetee/spool-HOST…`, one for each address and version: what waits there is sent as
/// that version.
fn spool_directory(url: &str, version: Option<&str>) -> Result<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state"));
    let state = state.filter(|path| path.is_absolute()).or_else(home);
    let state = state.context("no directory for waiting captures; set HOME or XDG_STATE_HOME")?;
    let safe = |char: char| if char.is_ascii_alphanumeric() || char == '.' { char } else { '-' };
    let mut name: String = url.chars().map(safe).collect();
    if let Some(version) = version {
        // Names that differ in what a file name does not take are told apart.
        let digest = hmac_sha256::Hash::hash(version.as_bytes());
        name.push_str("-version-");
        name.extend(hex::encode(digest).chars().take(16));
    }
    Ok(state.join("tracetee").join(format!("spool-{name}")))
}

/// The time by both clocks. CLOCK_BOOTTIME is what /proc/uptime has.
fn now() -> Now {
    let uptime = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
    let seconds =
        uptime.split_whitespace().next().and_then(|text| text.replace('.', "").parse().ok());
    // Two decimals, so hundredths.
    let boot_ms = seconds.map_or(0, |hundredths: u64| hundredths * 10);
    let real = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Now::of(boot_ms, u64::try_from(real.as_millis()).unwrap_or(u64::MAX))
}
