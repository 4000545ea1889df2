//! One run: the directory of the recorders' files, the environment, the child and its signals.
//!
//! Ctrl-C goes to the program as the terminal sends it; tracetee itself stays to write the trace.
//! SIGTERM and SIGHUP that are sent to tracetee are passed on to the program.

use crate::agent_library;
use crate::args::RunArgs;
use crate::output::Target;
use crate::{progress, units};
use anyhow::{Context, Result};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Sent};
use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal, stdin, stdout};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tracetee_protocol::capture_config::{Config, RecorderConfig};

/// The agents' configuration, checked.
fn config(args: &RunArgs, directory: PathBuf) -> Result<Config> {
    let duration_ms = args.limit().map(|limit| limit.as_millis().max(1).try_into());
    let config = Config {
        tags: args.tags.clone(),
        pass_on: args.pass_on.into(),
        duration_ms: duration_ms.transpose()?,
        recorder: RecorderConfig {
            capacity_kb: args.capacity * 1024,
            // Large blocks: each costs a system call that reserves its disk space.
            block_kb: 64,
            directory: Some(directory),
            ..RecorderConfig::default()
        },
        ..Config::default()
    };
    config.validate().context("configuration")?;
    Ok(config)
}

/// True if the program can use the terminal itself, as a shell or an editor does: a progress line would overwrite its text.
fn is_interactive(input: &impl IsTerminal, output: &impl IsTerminal) -> bool {
    input.is_terminal() && output.is_terminal()
}

/// A prepared run. Its directory is deleted when it is dropped.
pub(crate) struct Session {
    library: PathBuf,
    directory: TempDir,
    config: String,
    limit: Option<Duration>,
    shows_progress: bool,
}

/// End of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Exited(u8),
    Signalled(u8),
}

impl Ended {
    fn from_status(status: ExitStatus) -> Self {
        let small = |number: i32| u8::try_from(number & 0xff).unwrap_or(u8::MAX);
        match status.signal() {
            Some(signal) => Self::Signalled(small(signal)),
            None => Self::Exited(small(status.code().unwrap_or(0))),
        }
    }

    /// Returns the exit code as a shell reports it: 128 + n after signal n.
    pub(crate) fn exit_code(self) -> ExitCode {
        match self {
            Self::Exited(code) => ExitCode::from(code),
            Self::Signalled(signal) => ExitCode::from(signal.saturating_add(128)),
        }
    }
}

impl Session {
    /// Makes the directory, next to the future trace if that will be renamed, and checks that a trace can be written there.
    pub(crate) fn create(output: &Path, args: &RunArgs) -> Result<Self> {
        let target = Target::at(output)?;
        let parent = target.directory().map_or_else(std::env::temp_dir, Path::to_owned);
        let directory = tempfile::Builder::new()
            .prefix(".tracetee-")
            .tempdir_in(&parent)
            .with_context(|| format!("cannot write the trace to {}", parent.display()))?;
        let config = config(args, directory.path().canonicalize()?)?.to_json();
        let library = agent_library::install()?;
        let limit = args.limit();
        let shows_progress = !args.quiet && !is_interactive(&stdin(), &stdout());
        Ok(Self { library, directory, config, limit, shows_progress })
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns a path in its own directory, for a trace of this name that is not complete yet.
    pub(crate) fn unfinished(&self, output: &Path) -> Result<PathBuf> {
        let directory = self.directory.path().join("written");
        std::fs::create_dir_all(&directory)?;
        Ok(directory.join(output.file_name().unwrap_or_default()))
    }

    /// Starts the program with the agent preloaded.
    pub(crate) fn start(
        &self,
        path: &Path,
        name: &OsStr,
        arguments: &[OsString],
    ) -> std::io::Result<Running<'_>> {
        let mut preload = self.library.as_os_str().to_owned();
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|list| !list.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        // Before the child starts, so that signals are handled from the start.
        let signals = SignalsInfo::<WithOrigin>::new([SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP])?;
        let child = Command::new(path)
            .arg0(name)
            .args(arguments)
            .env("LD_PRELOAD", preload)
            .env("TRACETEE_CONFIG", &self.config)
            .spawn()?;
        let started = Instant::now();
        let stop_forwarding = Arc::new(AtomicBool::new(false));
        forward_signals(signals, child.id(), Arc::clone(&stop_forwarding));
        Ok(Running { session: self, child, started, ended: None, stop_forwarding })
    }

    /// Disk space of the recorders' files.
    fn recorded_bytes(&self) -> u64 {
        let entries = std::fs::read_dir(self.directory()).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.metadata().ok()).map(|file| file.blocks() * 512).sum()
    }
}

impl Drop for Session {
    /// Deletes the recorders' files, then the directory. A script leaves hundreds, and some file systems wait for the disk
    /// for each of them (8 ms): several threads wait at the same time.
    fn drop(&mut self) {
        let entries = std::fs::read_dir(self.directory()).into_iter().flatten().flatten();
        let files: Vec<_> = entries.map(|entry| entry.path()).collect();
        std::thread::scope(|scope| {
            for some in files.chunks(files.len().div_ceil(DELETING_THREADS).max(1)) {
                // Dropping the directory tries again to delete what remains.
                let delete = move || some.iter().for_each(|file| drop(std::fs::remove_file(file)));
                let started = std::thread::Builder::new().spawn_scoped(scope, delete);
                drop(started);
            }
        });
    }
}

/// Number of threads that delete recorder files.
const DELETING_THREADS: usize = 8;

/// The running program.
pub(crate) struct Running<'a> {
    session: &'a Session,
    child: Child,
    started: Instant,
    ended: Option<Ended>,
    stop_forwarding: Arc<AtomicBool>,
}

/// Interval at which a running program is checked.
const POLL: Duration = Duration::from_millis(10);
/// Interval at which the progress line changes.
const PROGRESS: Duration = Duration::from_millis(500);

impl Running<'_> {
    /// Waits for the program's end or the time limit; `None` at the limit.
    pub(crate) fn wait_until_limit(&mut self) -> Option<Ended> {
        self.wait(self.session.limit)
    }

    /// Waits for the program's end.
    pub(crate) fn wait_for_end(&mut self) -> Ended {
        self.wait(None).unwrap_or(Ended::Exited(0))
    }

    fn wait(&mut self, limit: Option<Duration>) -> Option<Ended> {
        let mut next_line = PROGRESS;
        loop {
            if let Some(ended) = self.ended {
                return Some(ended);
            }
            match self.child.try_wait() {
                Ok(None) => {}
                Ok(Some(status)) => self.ended = Some(Ended::from_status(status)),
                // The child has ended and other code took its status.
                Err(_) => self.ended = Some(Ended::Exited(0)),
            }
            let elapsed = self.started.elapsed();
            if self.session.shows_progress && elapsed >= next_line && self.ended.is_none() {
                let size = units::bytes(self.session.recorded_bytes());
                progress::show(format!("tracetee: {} s, {size} recorded", elapsed.as_secs()));
                next_line = elapsed + PROGRESS;
            }
            if self.ended.is_none() {
                if limit.is_some_and(|limit| elapsed >= limit) {
                    return None;
                }
                std::thread::sleep(POLL);
            }
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.stop_forwarding.store(true, Ordering::Relaxed);
    }
}

/// Passes on signals sent only to tracetee. The program itself gets the terminal's signals.
fn forward_signals(mut signals: SignalsInfo<WithOrigin>, child: u32, stop: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        for origin in signals.forever() {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let sent_by_a_process = matches!(origin.cause, Cause::Sent(Sent::User | Sent::TKill));
            if origin.signal != SIGCHLD
                && sent_by_a_process
                && let Ok(pid) = i32::try_from(child)
            {
                // SAFETY: the child is ours and not waited for as long as `stop` is false; a signal to it cannot reach
                // another process.
                unsafe { libc::kill(pid, origin.signal) };
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_on_a_terminal_has_it_to_itself() {
        let terminal = std::fs::File::open("/dev/ptmx").unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(is_interactive(&terminal, &terminal));
        assert!(!is_interactive(&terminal, &file) && !is_interactive(&file, &terminal));
    }
}
