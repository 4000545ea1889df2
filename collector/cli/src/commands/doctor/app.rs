//! `tracetee doctor --app`: examines an app on a device over adb.
//!
//! It checks the device, the installed app, its libraries, its process, the agent's answer and the log, in this order, and
//! stops when something is missing that the rest requires. It changes nothing on the device; the port that it forwards to
//! the agent is closed again.

use super::adb;
use super::describe::{describe, push};
use super::device::{Libraries, Package, Properties, warnings};
use crate::terminal::print;
use anyhow::{Context, Result, bail};
use std::fmt::Write as _;
use std::process::ExitCode;
use tracetee_protocol::control_socket;
use tracetee_protocol::{ControlReport, HealthReport};
use tracetee_trace::{quoted, shown};

/// The agent's library.
const AGENT: &str = "libtracetee.so";
/// The first API level that the agent supports.
const MIN_API: u32 = 21;
/// Number of the log's last warnings that are shown.
const MAX_WARNINGS: usize = 5;

/// Examines an app on the device. The exit status is 1 if something is missing.
pub(super) fn of_app(package: &str, json: bool) -> Result<ExitCode> {
    check_name(package)?;
    let mut visit = Visit::new(package);
    visit.run()?;
    if json {
        let missing = || format!("no health report: {}", visit.missing.join("; "));
        print(&format!("{}\n", visit.answer.as_deref().with_context(missing)?));
    } else {
        print(&visit.text());
    }
    Ok(if visit.missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Checks an application id: it becomes part of commands for the device's shell.
fn check_name(package: &str) -> Result<()> {
    let is_part = |char: char| char.is_ascii_alphanumeric() || matches!(char, '.' | '_');
    if package.is_empty() || !package.chars().all(is_part) {
        bail!("--app {}: expected an application id, such as com.example.app", quoted(package));
    }
    Ok(())
}

/// One examination of an app, and its findings so far.
#[derive(Default)]
pub(super) struct Visit<'a> {
    package: &'a str,
    /// Missing parts, each with the next step.
    pub(super) missing: Vec<String>,
    /// Findings: label and text.
    pub(super) lines: Vec<(&'static str, String)>,
    /// The agent's health report, as received.
    pub(super) answer: Option<String>,
    report: Option<HealthReport>,
}

impl<'a> Visit<'a> {
    pub(super) fn new(package: &'a str) -> Self {
        Self { package, ..Self::default() }
    }

    /// Runs all checks.
    pub(super) fn run(&mut self) -> Result<()> {
        self.device()?;
        let Some(package) = self.app()? else { return Ok(()) };
        self.libraries(&package)?;
        let pid = self.process()?;
        if let Some(pid) = pid {
            self.agent(pid)?;
        }
        self.log(pid)
    }

    fn found(&mut self, label: &'static str, text: String) {
        self.lines.push((label, text));
    }

    fn missing(&mut self, text: impl Into<String>) {
        self.missing.push(text.into());
    }

    /// Finds the device, and notes its properties.
    pub(super) fn device(&mut self) -> Result<()> {
        let state = adb::run(&["get-state"])?;
        if state.text.trim() != "device" {
            bail!("{}", no_device(&state));
        }
        let properties = Properties::parse(&adb::shell("getprop")?);
        let property = |name| properties.get(name).unwrap_or("?");
        let text = format!(
            "{} {}, Android {} (API {}), {}",
            property("ro.product.manufacturer"),
            property("ro.product.model"),
            property("ro.build.version.release"),
            property("ro.build.version.sdk"),
            property("ro.product.cpu.abi"),
        );
        self.found("device", text);
        if let Some(api) = properties.api().filter(|&api| api < MIN_API) {
            self.missing(format!(
                "API {MIN_API}: the agent does not load on the device's API {api}"
            ));
        }
        Ok(())
    }

    /// Finds the installed app.
    fn app(&mut self) -> Result<Option<Package>> {
        let dump = adb::shell(&format!("dumpsys package {}", self.package))?;
        let Some(package) = Package::parse(&dump, self.package) else {
            self.missing("the app: it is not installed. Install it: adb install APK");
            return Ok(None);
        };
        let unknown = || "?".to_owned();
        let kind = match (package.is_debuggable(), package.is_profileable()) {
            (true, _) => "debuggable",
            (false, true) => "a release build, profileable by the shell",
            (false, false) => "a release build",
        };
        let text = format!(
            "version {} ({}), {kind}, runs as {}",
            package.version_name.clone().unwrap_or_else(unknown),
            package.version_code.clone().unwrap_or_else(unknown),
            package.abi.as_deref().unwrap_or("no ABI in particular"),
        );
        self.found("app", text);
        if package.has_wire_driver {
            let text = "androidx.tracing 2 with its wire driver: unless the app gives the driver another check \
                        (isCategoryEnabled), it records to its own files while a capture has the tag app on. Set that \
                        check, or leave app out of the windows' tags. dev.tracetee:androidx-tracing records its sections here";
            self.found("other tracer", text.to_owned());
        }
        if !package.has_internet {
            self.missing(
                "the permission android.permission.INTERNET: captures cannot be sent. Add it to the manifest, \
                 or do not remove it from the library's manifest",
            );
        }
        Ok(Some(package))
    }

    /// Compares the libraries in the APKs with the ABI that the app runs as.
    fn libraries(&mut self, package: &Package) -> Result<()> {
        let mut libraries = Libraries::default();
        let mut has_listing = false;
        let paths = adb::shell(&format!("pm path {}", self.package))?;
        for path in paths.lines().filter_map(|line| line.trim().strip_prefix("package:")) {
            if path.chars().any(|char| char == '\'' || char.is_control()) {
                continue;
            }
            let listing = adb::shell(&format!("unzip -l '{path}'"))?;
            // Devices before Android 10 may have no unzip.
            has_listing |= listing.contains("AndroidManifest.xml");
            libraries.add(&listing);
        }
        if !has_listing {
            self.found("libraries", "unknown: the device cannot list the APK's content".to_owned());
            return Ok(());
        }
        let abis = libraries.abis_with(AGENT);
        if abis.is_empty() {
            self.missing(format!(
                "{AGENT} in the APK: depend on dev.tracetee:tracetee, not on tracetee-noop, in this build variant, and \
                 do not exclude its libraries from packaging"
            ));
            return Ok(());
        }
        self.found("libraries", format!("{AGENT} for {}", abis.join(", ")));
        if let Some(abi) = &package.abi {
            self.abi(abi, &libraries);
        }
        Ok(())
    }

    /// Checks the libraries of the ABI that the app runs as.
    fn abi(&mut self, abi: &str, libraries: &Libraries) {
        let lacking = libraries.lacking(abi);
        if lacking.contains(&AGENT) {
            let text =
                format!("{AGENT} for {abi}, as which the app runs; see ndk.abiFilters and splits");
            self.missing(text);
        } else if !lacking.is_empty() {
            self.missing(format!(
                "{} for {abi}, which other ABIs of the APK have: the app runs as {abi} because it has {AGENT} for it. \
                 Leave {abi} out by ndk.abiFilters, or add the libraries",
                lacking.join(", ")
            ));
        }
    }

    /// Finds the app's process.
    fn process(&mut self) -> Result<Option<u32>> {
        let pids = adb::shell(&format!("pidof {}", self.package))?;
        let first = pids.split_whitespace().next().and_then(|pid| pid.parse().ok());
        // Devices before Android 7 have no pidof.
        let pid = match first {
            Some(pid) => Some(pid),
            None => pid_in(&adb::shell("ps")?, self.package),
        };
        match pid {
            Some(pid) => self.found("process", pid.to_string()),
            None => self.missing(format!(
                "a process: the app does not run. Start it: adb shell monkey -p {} 1",
                self.package
            )),
        }
        Ok(pid)
    }

    /// Asks the agent for its health report.
    fn agent(&mut self, pid: u32) -> Result<()> {
        let answer = adb::ask_socket(&control_socket::name(pid), control_socket::HEALTH)?;
        if answer.is_empty() {
            self.missing(format!(
                "the agent's answer: nothing listens in process {pid}. The agent is not installed there, or failed to start \
                 (see the log below): call Tracetee.install in attachBaseContext, or leave dev.tracetee.TraceteeInitializer \
                 in the manifest"
            ));
            return Ok(());
        }
        match control_socket::read_health(answer.as_bytes()) {
            Ok(report) => {
                match &report.control {
                    Some(control) => self.configuration(control)?,
                    None => self.missing("the agent's installation: call Tracetee.install"),
                }
                self.report = Some(report);
                self.answer = Some(answer);
            }
            Err(error) => self.missing(format!("an agent of this program's version: {error}")),
        }
        Ok(())
    }

    /// Checks whether a configuration arrives.
    fn configuration(&mut self, control: &ControlReport) -> Result<()> {
        let url = control.upload.url.as_str();
        let port = local_port(url);
        if url.is_empty() {
            self.missing(
                "a collector: captures stay on the device. Call setCollectorUrl, or set dev.tracetee.COLLECTOR_URL",
            );
        } else if let Some(port) = port
            && !adb::run(&["reverse", "--list"])?.text.contains(&format!("tcp:{port}"))
        {
            self.missing(format!(
                "a way to {url}, which is this machine: run adb reverse tcp:{port} tcp:{port}"
            ));
        }
        if control.config.is_none() && !url.is_empty() {
            let why = control.config_refused.as_ref().or(control.upload.held.as_ref());
            let why = why.map_or_else(
                || "none has arrived; the collector serves one with --config".to_owned(),
                |why| format!("the last attempt: {why}"),
            );
            self.missing(format!("a configuration from {url}: {why}"));
        }
        Ok(())
    }

    /// Reads the log for the agent's warnings.
    fn log(&mut self, pid: Option<u32>) -> Result<()> {
        let warnings = warnings(&adb::shell("logcat -d -v brief -s tracetee:W")?, pid);
        let origin = if pid.is_none() { " (of any app)" } else { "" };
        for warning in warnings.iter().skip(warnings.len().saturating_sub(MAX_WARNINGS)) {
            self.found("log", format!("{warning}{origin}"));
        }
        Ok(())
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for missing in &self.missing {
            let _ = writeln!(text, "missing: {}", shown(missing));
        }
        if self.missing.is_empty() {
            text.push_str("nothing is missing\n");
        }
        let _ = writeln!(text, "\n{}", self.package);
        for (label, found) in &self.lines {
            push(&mut text, label, &shown(found));
        }
        if let Some(report) = &self.report {
            let _ = write!(text, "\nThe agent's report:\n{}", describe(report));
        }
        text
    }
}

/// Explains adb's own reason why there is no device to examine, with the next step.
fn no_device(state: &adb::Output) -> String {
    let said = state.complaint();
    let step = if said.contains("no devices") {
        "connect a phone with USB debugging on, or start an emulator"
    } else if said.contains("unauthorized") {
        "confirm this machine's key on the device's screen"
    } else if said.contains("more than one") {
        "choose one of adb devices by its serial number: ANDROID_SERIAL=… tracetee doctor --app …"
    } else {
        "see adb devices"
    };
    format!(
        "adb has no device: {}; {step}",
        if said.is_empty() { state.text.trim() } else { &said }
    )
}

/// Finds the process id of a name in the list of `ps`: the second column and the last.
fn pid_in(list: &str, name: &str) -> Option<u32> {
    let line = list.lines().find(|line| line.split_whitespace().next_back() == Some(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Returns the port of an address on the device itself, which `adb reverse` connects to this machine.
fn local_port(url: &str) -> Option<u16> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split('/').next()?;
    let (host, port) = authority.rsplit_once(':').unwrap_or((authority, ""));
    let port = match (port, scheme) {
        ("", "https") => Some(443),
        ("", _) => Some(80),
        (port, _) => port.parse().ok(),
    };
    port.filter(|_| matches!(host, "127.0.0.1" | "localhost"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_shell_would_read_otherwise_are_refused() {
        assert!(check_name("com.example.app_2").is_ok());
        for name in ["", "a b", "a;reboot", "a$(x)", "a'b", "ä"] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn the_process_of_an_old_device_is_found_in_its_list() {
        let list = "USER     PID   PPID  VSIZE  RSS     WCHAN    PC         NAME\n\
                    u0_a63    4242  1      5 6 ffffffff 00000000 S com.example.app:remote\n\
                    u0_a63    4243  1      5 6 ffffffff 00000000 S com.example.app\n";
        assert_eq!(pid_in(list, "com.example.app"), Some(4243));
        assert_eq!(pid_in(list, "com.example"), None);
    }

    #[test]
    fn addresses_of_this_machine_have_a_port() {
        for (url, port) in [
            ("http://127.0.0.1:8440", Some(8440)),
            ("http://localhost:8440/path", Some(8440)),
            ("https://localhost", Some(443)),
            ("http://localhost/", Some(80)),
            ("https://traces.example.com", None),
            ("http://10.0.2.2:8440", None),
            ("", None),
        ] {
            assert_eq!(local_port(url), port, "{url}");
        }
    }
}
