//! Processes that carry the agent: found by their sockets, and asked over them.

use crate::args::AtraceArgs;
use crate::peer;
use anyhow::{Context, Result, bail};
use std::ffi::CString;
use std::fmt;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use tracetee_protocol::control_socket::{self, AtraceRequest, CaptureOptions, Reply};

/// Time limit for an answer, which includes a dump.
const PATIENCE: Duration = Duration::from_secs(90);
/// Time after which a capture is discarded if it is not collected.
const GRACE_MS: u64 = 10_000;

/// Address of an agent.
#[derive(Debug)]
pub(super) enum Target {
    /// In a process of this machine.
    Process { pid: u32, name: String },
    /// Behind an address: what `adb forward tcp:PORT localabstract:tracetee-PID` gives.
    Forwarded(String),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { pid, name } => write!(f, "{name} ({pid})"),
            Self::Forwarded(address) => f.write_str(address),
        }
    }
}

/// Several processes, in human-readable form.
pub(super) fn names(targets: &[Target]) -> String {
    targets.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

impl Target {
    /// A name for its text's file.
    pub(super) fn file_name(&self) -> String {
        match self {
            Self::Process { pid, name } => format!("{}-{pid}.ftrace", name.replace('/', "_")),
            Self::Forwarded(_) => "device.ftrace".to_owned(),
        }
    }

    fn connect(&self) -> std::io::Result<Box<dyn Stream>> {
        Ok(match self {
            Self::Process { pid, .. } => {
                let stream = peer::connect(*pid)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                Box::new(stream)
            }
            Self::Forwarded(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                Box::new(stream)
            }
        })
    }

    /// Sends a request to the agent, and returns the text that follows its reply. An agent of another version gets no
    /// request: its captures may have another meaning.
    pub(super) fn ask(&self, request: &AtraceRequest) -> Result<Vec<u8>> {
        let health = self.send(control_socket::HEALTH)?;
        control_socket::read_health(&health).with_context(|| self.to_string())?;
        let mut answer = self.send(&format!("{}{}", control_socket::ATRACE, request.to_json()))?;
        let end = answer.iter().position(|&byte| byte == b'\n').unwrap_or(answer.len());
        Reply::check(answer.get(..end).unwrap_or_default()).with_context(|| self.to_string())?;
        answer.drain(..(end + 1).min(answer.len()));
        Ok(answer)
    }

    /// Sends one line, and reads the complete answer.
    fn send(&self, request: &str) -> Result<Vec<u8>> {
        let stream = self.connect();
        let stream = stream.with_context(|| format!("{self}: cannot connect to the agent"))?;
        peer::ask(stream, request).with_context(|| format!("{self}: the agent does not answer"))
    }
}

/// The request that begins a capture.
pub(super) fn start(args: &AtraceArgs, tags: Vec<String>) -> AtraceRequest {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a day at most")]
    let time_ms = (args.time * 1000.0) as u64;
    AtraceRequest::Start(CaptureOptions {
        tags,
        buffer_kb: args.buffer,
        circular: args.circular || args.async_start,
        duration_ms: (!args.async_start).then_some(time_ms + GRACE_MS),
    })
}

/// Returns the agents that the command line selects.
pub(super) fn find(args: &AtraceArgs) -> Result<Vec<Target>> {
    if let Some(address) = &args.connect {
        return Ok(vec![Target::Forwarded(address.clone())]);
    }
    let all = carriers()?;
    if let Some(pid) = args.pid {
        let one = all.into_iter().find(|(process, _)| *process == pid);
        let Some((pid, name)) = one else {
            bail!(
                "no agent listens in process {pid}. An app must call Tracetee.install or tracetee_install; start a \
                 program with `tracetee atrace … -- PROGRAM`, or with TRACETEE_INSTALL set"
            );
        };
        return Ok(vec![Target::Process { pid, name }]);
    }
    let patterns: Vec<&str> = args.app.iter().flat_map(|apps| apps.split(',')).collect();
    let chosen: Vec<Target> = all
        .into_iter()
        .filter(|(_, name)| {
            patterns.is_empty() || patterns.iter().any(|wanted| matches(wanted, name))
        })
        .map(|(pid, name)| Target::Process { pid, name })
        .collect();
    if chosen.is_empty() {
        let choice = if patterns.is_empty() {
            String::new()
        } else {
            format!(" matches {}", patterns.join(" or "))
        };
        bail!(
            "no process with the agent{choice}. Pass a program to run (-- PROGRAM); for a phone, run `adb forward tcp:8441 \
             localabstract:tracetee-PID` and pass --connect 127.0.0.1:8441"
        );
    }
    Ok(chosen)
}

/// Processes of this machine whose agents listen, with their names.
fn carriers() -> Result<Vec<(u32, String)>> {
    let sockets = std::fs::read_to_string("/proc/net/unix").context("cannot list the sockets")?;
    let mark = format!("@{}", control_socket::NAME_PREFIX);
    let mut pids: Vec<u32> =
        sockets.lines().filter_map(|line| line.rsplit_once(&mark)?.1.parse().ok()).collect();
    pids.sort_unstable();
    pids.dedup();
    Ok(pids.into_iter().map(|pid| (pid, name_of(pid))).collect())
}

/// On Android the package, or `package:process`; else the program's file name.
fn name_of(pid: u32) -> String {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let first = line.split(|&byte| byte == 0).next().unwrap_or_default();
    let name = String::from_utf8_lossy(first);
    name.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("process").to_owned()
}

/// fnmatch(3), as in atrace.
fn matches(pattern: &str, name: &str) -> bool {
    let (Ok(pattern), Ok(name)) = (CString::new(pattern), CString::new(name)) else { return false };
    // SAFETY: two NUL-terminated strings.
    unsafe { libc::fnmatch(pattern.as_ptr(), name.as_ptr(), 0) == 0 }
}
