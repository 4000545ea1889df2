//! A user's program, which depends on `tracetee-agent` alone: it compiles only if each type of a public signature has
//! a public name, and runs a capture by these types.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tracetee::{
    Action, Body, CaptureReport, ClockSetting, Config, ConfigError, ConfigReport, ControlReport,
    Decimal, Error, Failure, Health, HealthReport, HooksError, Install, LastUpload,
    LateStartReport, Library, LostReport, MinSlice, Mode, NetState, Network, OverheadReport,
    PassOnSetting, PassReport, PerfettoReport, Position, Precision, RawJson, RecorderConfig,
    RecorderError, Replacement, Request, Response, Rule, Section, SpentReport, Summary, TagReport,
    TaskSection, TextError, TextOptions, ThreadSummary, TraceFuture, Traced, Transport,
    TransportChoice, UploadError, UploadStatus, UploadTo, WindowReport,
};

/// A configuration in which every field is written out.
fn config() -> Config {
    let hashed = Rule {
        name: "user".to_owned(),
        pattern: "user-[a-z]+".to_owned(),
        action: Action::Replace(Replacement { with: "<user>".to_owned() }),
        except: None,
    };
    let text = TextOptions {
        precision: Precision::Ns,
        min_slice_us: MinSlice { main: 0, render: 0, other: 0 },
        main_thread_only: false,
        redaction: vec![hashed],
        redaction_key: 7,
    };
    let recorder = RecorderConfig {
        mode: Mode::Ring,
        capacity_kb: 4096,
        block_kb: 16,
        directory: None,
        recover_to: None,
        clock: ClockSetting::Auto,
        drain_cpu_percent: 20,
    };
    Config {
        tags: vec!["view".to_owned()],
        pass_on: PassOnSetting::Never,
        recorder,
        duration_ms: None,
        text,
        output: None,
        fast_path: false,
        frame_counters: false,
    }
}

#[test]
fn a_capture_is_configured_and_read_by_named_types() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.ftrace");
    tracetee::start(&config()).unwrap();
    assert!(tracetee::is_recording());
    {
        let _section = Section::begin("login user-alice");
        tracetee::counter("attempts", 1);
    }
    let report: HealthReport = tracetee::health().unwrap();
    let health: &Health = &report.health;
    assert_eq!(health.pid, std::process::id());
    tracetee::stop().unwrap();
    let summary: Summary = tracetee::dump(&path).unwrap();
    assert_eq!((summary.recorded(), summary.lost()), (3, 0));
    assert_eq!(summary.redacted, 1);
    let thread: &ThreadSummary = summary.threads.first().unwrap();
    assert_eq!(thread.records, 3);
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains("login <user>") && !text.contains("alice"), "{text}");
}

/// A transport that is a user's own.
struct Offline(Vec<String>);

impl Transport for Offline {
    fn send(&mut self, request: &Request<'_>) -> Result<Response, Failure> {
        let _: (Duration, &Body<'_>) = (request.timeout, &request.body);
        self.0.push(request.url.clone());
        Err(Failure::Unreachable("no network".to_owned()))
    }
}

#[test]
fn an_installation_is_described_by_named_types() {
    let device = BTreeMap::from([("model".to_owned(), RawJson::parse(r#""Pixel 9""#).unwrap())]);
    let upload = UploadTo {
        url: "https://collector.example".to_owned(),
        transport: Some(TransportChoice::App),
        net: Some(NetState { network: Network::Unmetered, charging: true, ..NetState::default() }),
        ..UploadTo::default()
    };
    let install = Install {
        directory: PathBuf::from("/data/tracetee"),
        device,
        upload: Some(upload),
        ..Install::default()
    };
    install.validate().unwrap();
    let error = tracetee::upload(Some(NetState::MAINS), &mut Offline(Vec::new())).unwrap_err();
    assert!(matches!(error, Error::State(_)), "{error}");
    assert!(tracetee::health().is_none_or(|health| health.control.is_none()));
    let refused: ConfigError = RawJson::parse("{").unwrap_err();
    assert!(matches!(refused.position(), Some(Position { line: 1, .. })), "{refused:?}");
}

#[test]
fn a_future_becomes_a_task() {
    let task: Traced<_> = async { drop(TaskSection::begin("step")) }.traced("task");
    drop(task);
}

/// Names the parts of every error.
#[allow(dead_code, reason = "compiling is the test")]
fn part_of(error: &Error) -> Option<&Path> {
    match error {
        Error::Config(ConfigError { .. }) | Error::Hooks(HooksError::SymbolNotFound { .. }) => None,
        Error::Io { path, .. }
        | Error::Spool(UploadError::Io { path, .. })
        | Error::Recorder(RecorderError::Io { path, .. })
        | Error::Text(TextError::Io { path, .. }) => Some(path),
        _ => None,
    }
}

/// Takes the reports apart, each part with its type.
#[allow(dead_code, reason = "compiling is the test")]
fn parts(control: ControlReport, pass: PassReport, health: Health) {
    let _: Option<ConfigReport> = control.config;
    let _: Vec<WindowReport> = control.windows;
    let _: Option<CaptureReport> = control.last_capture;
    let _: Option<LostReport> = control.last_lost;
    let _: Option<LateStartReport> = control.late_start;
    let _: SpentReport = control.spent;
    let OverheadReport { percent, .. } = control.overhead;
    let _: Option<Decimal> = percent;
    let status: UploadStatus = pass.status;
    let _: Option<LastUpload> = status.last;
    let _: Vec<Library> = health.libraries;
    let _: Vec<TagReport> = health.atrace;
    let _: Option<PerfettoReport> = health.perfetto;
}
