//! Android's debug bridge: runs its client, with limits on time and output.

use anyhow::{Context, Result, bail};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Time limit of a command. The first command may start adb's server.
const PATIENCE: Duration = Duration::from_secs(30);
/// Limit of a command's output; `dumpsys package` of an app with many components has a hundred KiB.
const MAX_OUTPUT_BYTES: u64 = 4 << 20;
/// Limit of a health report.
const MAX_REPORT_BYTES: u64 = 4 << 20;

/// The output of a command.
#[derive(Debug)]
pub(super) struct Output {
    /// Standard output.
    pub(super) text: String,
    /// Standard error.
    pub(super) errors: String,
    /// True if the client reports success. From Android 7 on, a command of the device's shell counts, too.
    pub(super) is_ok: bool,
}

impl Output {
    /// Returns the client's error, without its messages about the start of its server.
    pub(super) fn complaint(&self) -> String {
        let lines = self.errors.lines().filter(|line| !line.starts_with("* "));
        let lines =
            lines.map(|line| line.trim_start_matches("adb: ").trim_start_matches("error: "));
        lines.collect::<Vec<_>>().join("\n").trim().to_owned()
    }

    /// Returns true if the complaint is the client's own, not one of a command of the device.
    fn is_of_client(&self) -> bool {
        let mut lines = self.errors.lines().filter(|line| !line.starts_with("* "));
        lines.next().is_some_and(|line| line.starts_with("error: ") || line.starts_with("adb: "))
    }
}

/// Runs the client with these arguments. It chooses the device itself (`ANDROID_SERIAL`).
pub(super) fn run(arguments: &[&str]) -> Result<Output> {
    run_within(arguments, PATIENCE)
}

/// Runs the client, within this time limit.
pub(super) fn run_within(arguments: &[&str], patience: Duration) -> Result<Output> {
    let shown = || format!("adb {}", arguments.join(" "));
    let child = Command::new("adb")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) if error.kind() == ErrorKind::NotFound => bail!(
            "adb is not on the PATH. Install Android's platform tools (on Debian: apt install adb). Without them, write \
             the text of Tracetee.health() to a file in the app, and run: tracetee doctor FILE"
        ),
        Err(error) => return Err(error).context("cannot run adb"),
    };
    let text = collect(child.stdout.take());
    let errors = collect(child.stderr.take());
    let both =
        text.recv_timeout(patience).and_then(|text| Ok((text, errors.recv_timeout(patience)?)));
    let Ok((text, errors)) = both else {
        let _ = child.kill();
        let _ = child.wait();
        bail!("{} did not end within {} s; is the device connected?", shown(), patience.as_secs());
    };
    let is_ok = child.wait().with_context(shown)?.success();
    Ok(Output { text: text?, errors: errors?, is_ok })
}

/// Runs a command in the device's shell, and returns its standard output, whatever its exit status.
///
/// # Errors
/// The bridge's reason, if it lost the device.
pub(super) fn shell(command: &str) -> Result<String> {
    let output = run(&["shell", command])?;
    if !output.is_ok && output.text.is_empty() && output.is_of_client() {
        bail!("adb shell {command}: {}", output.complaint());
    }
    Ok(output.text)
}

/// Reads a pipe on its own thread, so that neither pipe of a program fills up while the other is read.
fn collect(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<Result<String>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = match pipe {
            Some(pipe) => pipe.take(MAX_OUTPUT_BYTES).read_to_end(&mut bytes).map(|_| ()),
            None => Ok(()),
        };
        // Devices before Android 7 end lines as terminals do.
        let text = String::from_utf8_lossy(&bytes).replace("\r\n", "\n");
        // No reader is left after the time limit.
        let _ = sender.send(read.map(|()| text).context("cannot read adb's output"));
    });
    receiver
}

/// Sends a line to an abstract socket of the device, and returns the complete answer; nothing if there is no listener.
pub(super) fn ask_socket(name: &str, line: &str) -> Result<String> {
    let forwarded = run(&["forward", "tcp:0", &format!("localabstract:{name}")])?;
    let Ok(port) = forwarded.text.trim().parse::<u16>() else {
        bail!("adb cannot forward a port to the app: {}", forwarded.complaint());
    };
    let answer = exchange(port, line);
    let _ = run(&["forward", "--remove", &format!("tcp:{port}")]);
    match answer {
        Ok(answer) => Ok(answer),
        // The bridge accepts first, and closes the connection if there is no listener on the device.
        Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(String::new()),
        Err(error) => Err(error).context("cannot ask the agent over adb"),
    }
}

fn exchange(port: u16, line: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{line}\n").as_bytes())?;
    let mut answer = String::new();
    stream.take(MAX_REPORT_BYTES).read_to_string(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_of_adb_s_server_is_no_complaint() {
        // As adb 29 prints it.
        let errors = "* daemon not running; starting now at tcp:5037\n* daemon started successfully\n\
                      error: no devices/emulators found\n";
        let output = Output { text: String::new(), errors: errors.to_owned(), is_ok: false };
        assert_eq!(output.complaint(), "no devices/emulators found");
        assert!(output.is_of_client());
        let of_device = Output { errors: "sh: unzip: not found\n".to_owned(), ..output };
        assert!(!of_device.is_of_client());
    }
}
