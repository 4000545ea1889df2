//! The command of `--on-finding`: one run at a time, with a message as JSON on its standard input, for ten seconds at most.
//!
//! A run is a process group of its own, which is killed when its time or the collector ends, and when its first process has ended. Its
//! output goes nowhere: what it says is not for the collector's log. The input is a file, so that a command that reads nothing blocks
//! nobody.

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::io::{Seek, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time of a run.
const LIMIT: Duration = Duration::from_secs(10);
/// Time between two checks whether a run has ended.
const POLL: Duration = Duration::from_millis(20);

/// The command.
#[derive(Debug)]
pub(crate) struct Runner {
    command: String,
    running: Mutex<Running>,
}

#[derive(Debug, Default)]
struct Running {
    /// The process group of the run. Its first process is not reaped before this is `None`: the number is no other's.
    group: Option<Pid>,
    is_ended: bool,
}

impl Runner {
    pub(crate) fn new(command: String) -> Self {
        Self { command, running: Mutex::default() }
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the command with this input. An error says how it failed.
    pub(super) fn tell(&self, input: &str) -> Result<()> {
        self.run(input, LIMIT)
    }

    fn run(&self, input: &str, limit: Duration) -> Result<()> {
        let mut file = tempfile::tempfile()?;
        file.write_all(input.as_bytes())?;
        file.rewind()?;
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(&self.command).process_group(0);
        command.stdin(file).stdout(Stdio::null()).stderr(Stdio::null());
        let mut running = self.running();
        if running.is_ended {
            bail!("the collector ends");
        }
        let mut child = command.spawn().context("cannot start /bin/sh")?;
        let pid = Pid::from_child(&child);
        running.group = Some(pid);
        drop(running);
        let until = Instant::now() + limit;
        let is_late = loop {
            if has_ended(pid) || Instant::now() >= until {
                break !has_ended(pid);
            }
            sleep(POLL);
        };
        let group = self.running().group.take();
        group.into_iter().for_each(kill);
        let status = child.wait()?;
        if is_late {
            bail!("killed after {} s", limit.as_secs());
        }
        if !status.success() {
            bail!("{status}");
        }
        Ok(())
    }

    /// Kills the run, and starts no other.
    pub(crate) fn end(&self) {
        let mut running = self.running();
        running.is_ended = true;
        running.group.into_iter().for_each(kill);
    }
}

/// True if a child has ended. It is not reaped.
fn has_ended(child: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    // Nothing: there is nothing to tell of the child yet.
    !matches!(waitid(WaitId::Pid(child), options), Ok(None))
}

fn kill(group: Pid) {
    let _ = kill_process_group(group, Signal::KILL);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::sync::mpsc::channel;

    fn said(command: &str, limit: Duration) -> String {
        let done = Runner::new(command.to_owned()).run("{}", limit);
        done.map_or_else(|error| error.to_string(), |()| String::new())
    }

    /// True if a process is there and is no zombie.
    fn lives(pid: &str) -> bool {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
    }

    #[test]
    fn a_run_gets_its_input_and_its_failure_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join("out");
        let long = Duration::from_secs(60);
        let runner = Runner::new(format!("cat >{}", out.display()));
        runner.run("{\"a\": 1}", long).unwrap();
        assert_eq!(fs::read_to_string(&out).unwrap(), "{\"a\": 1}");
        assert_eq!(said("true", long), "", "a command that reads nothing");
        assert_eq!(said("echo out; echo err >&2; exit 3", long), "exit status: 3");
        assert!(said("kill -9 $$", long).contains("signal: 9"));
    }

    #[test]
    fn a_run_ends_with_its_whole_group_when_its_time_ends() {
        let directory = tempfile::tempdir().unwrap();
        let pids = directory.path().join("pids");
        let stubborn = format!(
            "trap '' TERM INT HUP; sleep 3600 & echo $! >{0}; echo $$ >>{0}; while :; do wait; done",
            pids.display()
        );
        assert_eq!(said(&stubborn, Duration::from_secs(1)), "killed after 1 s");
        let left = format!("sleep 3600 & echo $! >>{}", pids.display());
        assert_eq!(said(&left, Duration::from_secs(60)), "", "what it leaves behind ends with it");
        let text = fs::read_to_string(&pids).unwrap();
        assert_eq!(text.lines().count(), 3, "{text}");
        // Killed, and perhaps not gone yet.
        while text.lines().any(lives) {
            sleep(POLL);
        }
    }

    #[test]
    fn the_end_kills_the_run_and_starts_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let begun = directory.path().join("begun");
        let runner = Runner::new(format!("trap '' TERM; touch {}; sleep 3600", begun.display()));
        std::thread::scope(|scope| {
            let (done, is_done) = channel();
            let of_thread = &runner;
            scope.spawn(move || {
                done.send(of_thread.run("{}", Duration::from_secs(3600)).unwrap_err().to_string())
            });
            while !begun.exists() {
                sleep(POLL);
            }
            runner.end();
            assert!(is_done.recv().unwrap().contains("signal: 9"));
        });
        let error = runner.run("{}", Duration::from_secs(1)).unwrap_err();
        assert_eq!(error.to_string(), "the collector ends");
    }
}
