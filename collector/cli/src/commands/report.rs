//! `tracetee report`: of a collector's store, of one trace, of several.

#[cfg_attr(not(target_os = "linux"), path = "report/no_store.rs")]
mod of_store;

use crate::args::{FailOn, ReportArgs, ReportFormat};
use crate::input::{capture, mapping, mapping_of, say_damage, unpacked};
use crate::output::Output;
use crate::stored::{dump_beside, profile_beside};
use crate::terminal::{note, print, print_file, print_report, say};
use anyhow::{Result, bail};
use of_store::of_store;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tracetee_fleet::capture::{Capture, read_file_for_timeline, read_with_profile};
use tracetee_fleet::change::comparison::Verdict;
use tracetee_fleet::database::Database;
use tracetee_fleet::report::fenced;
use tracetee_fleet::report::fleet::{Ask, FleetReport};
use tracetee_fleet::report::html::{self, Examples, MAX_EMBEDDED_BYTES, Timeline};
use tracetee_fleet::report::single::SingleReport;
use tracetee_fleet::report::timeline;
use tracetee_fleet::rows::{About, from_capture};
use tracetee_jank::{Options, Which};
use tracetee_trace::{Mapping, is_system_process};

/// Exit status of a report with the verdict that `--fail-on` names.
const EXIT_WORSE: u8 = 1;

/// Writes a report. Returns the exit status.
pub(crate) fn report(args: &ReportArgs) -> Result<ExitCode> {
    let (dumps, captures) = dumps(&args.captures)?;
    let (text, verdicts) = match &*captures {
        [] if args.captures.is_empty() => of_store(args)?,
        [] => bail!("the files contain names of processes, but no trace"),
        [one] => (of_one(args, one, &dumps)?, Vec::new()),
        _ => of_several(args, &args.captures)?,
    };
    match &args.output {
        None if args.format() == ReportFormat::Text => {
            print_report(&String::from_utf8_lossy(&text))
        }
        None if args.format() != ReportFormat::Html => print(&String::from_utf8_lossy(&text)),
        None => print_file(&text),
        Some(path) => {
            let mut file = Output::create(path)?;
            file.write_all(&text)?;
            file.finish()?;
        }
    }
    let fails = verdicts.iter().any(|verdict| match args.fail_on {
        None => false,
        Some(FailOn::Worse) => *verdict == Verdict::Worse,
        Some(FailOn::Unknown) => matches!(verdict, Verdict::Worse | Verdict::Unknown),
    });
    Ok(if fails { ExitCode::from(EXIT_WORSE) } else { ExitCode::SUCCESS })
}

/// Time limit of each app's report: it takes milliseconds, unless a device has sent rows to make it slow.
const TIME_LIMIT: Duration = Duration::from_secs(60);

fn ask(args: &ReportArgs) -> Ask {
    let compare = match args.compare.as_deref() {
        Some([from, to]) => Some((from.clone(), to.clone())),
        _ => None,
    };
    Ask {
        app: args.app.clone(),
        only: None,
        screen: args.screen.clone(),
        since: args.since.clone(),
        version: args.version.clone(),
        api: args.api,
        class: args.class,
        compare,
        with_test_devices: args.test_devices,
        time_limit: Some(TIME_LIMIT),
        is_unwanted: None,
    }
}

/// Gives the file of a capture by its key.
type FileOf<'a> = dyn Fn(&str) -> Result<PathBuf> + 'a;

/// Writes a fleet's report.
fn written(
    args: &ReportArgs,
    report: &FleetReport,
    captures_at: Option<&str>,
    file_of: &FileOf<'_>,
) -> Result<(Vec<u8>, Vec<Verdict>)> {
    let text = match args.format() {
        ReportFormat::Text if args.output.is_none() => report.to_terminal(),
        ReportFormat::Text => report.to_text(),
        ReportFormat::Markdown => fenced(&report.to_text()),
        ReportFormat::Json => serde_json::to_string_pretty(report)? + "\n",
        ReportFormat::Html => {
            let given = mapping(args.mapping.as_deref())?;
            let examples = Examples::read(report, |raw_key| {
                let file = file_of(raw_key);
                let capture = file.and_then(|file| capture_of(args, given.as_ref(), &file));
                capture.inspect_err(|error| note(&format!("without a timeline: {error:#}"))).ok()
            });
            html::fleet(report, captures_at, &examples)
        }
    };
    Ok((text.into_bytes(), report.verdicts().collect()))
}

fn capture_of(args: &ReportArgs, given: Option<&Mapping>, path: &Path) -> Result<Capture> {
    let mapping = mapping_of(given, path)?;
    let options =
        Options { process: args.process(), mapping: mapping.as_deref(), ..Options::default() };
    Ok(read_file_for_timeline(path, &options)?)
}

/// Splits the files: those with only a PROCESS DUMP, which names the processes of the others, and traces.
fn dumps(paths: &[PathBuf]) -> Result<(Vec<&PathBuf>, Vec<&PathBuf>)> {
    let mut dumps = Vec::new();
    let mut traces = Vec::new();
    for path in paths {
        let is_dump = paths.len() > 1 && {
            let mut unpacked = unpacked(path)?;
            let head = unpacked.fill_buf().unwrap_or_default().trim_ascii_start();
            head.starts_with(b"PROCESS DUMP") || head.starts_with(b"USER ")
        };
        if is_dump { dumps.push(path) } else { traces.push(path) }
    }
    Ok((dumps, traces))
}

fn of_one(args: &ReportArgs, path: &Path, dumps: &[&PathBuf]) -> Result<Vec<u8>> {
    if args.compare.is_some() || args.screen.is_some() {
        bail!(
            "--screen and --compare need --store or several captures, not only {}",
            path.display()
        );
    }
    let process = match (&args.app, args.process()) {
        (Some(app), Which::App) => Which::Named(app),
        (_, process) => process,
    };
    let given = mapping(args.mapping.as_deref())?;
    let mapping = mapping_of(given.as_ref(), path)?;
    let dump = dump_beside(path);
    let (mapping, dump) = (mapping.as_deref(), dump.as_ref());
    let options = Options { process, mapping, dump, ..Options::default() };
    let is_page = args.format() == ReportFormat::Html;
    let profile = dumps.is_empty().then(|| profile_beside(path)).flatten();
    let capture = if let Some((kind, profile)) = profile {
        note(&format!("with the {kind} {}", profile.display()));
        let capture = read_with_profile(path, &profile, &options)?;
        say_damage(path, &capture.trace.losses);
        capture
    } else if dumps.is_empty() {
        capture(path, &options, is_page)?
    } else {
        let trace = tracetee_trace::read_file_with_events(path)?;
        say_damage(path, &trace.losses);
        let mut traces = vec![trace];
        for dump in dumps {
            traces.push(tracetee_trace::read_file(dump)?);
        }
        let parts: Vec<_> = traces.iter().map(|trace| (trace, 0)).collect();
        let trace = tracetee_trace::merge(&parts);
        let analysis = tracetee_jank::analyze(&trace, &options)?;
        Capture { trace, analysis }
    };
    let report = SingleReport::from_capture(&capture);
    let text = match args.format() {
        ReportFormat::Text if args.output.is_none() => report.to_terminal(),
        ReportFormat::Text => report.to_text(),
        ReportFormat::Markdown => fenced(&report.to_text()),
        ReportFormat::Json => serde_json::to_string_pretty(&report)? + "\n",
        ReportFormat::Html => {
            let bytes = std::fs::read(path).unwrap_or_default();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("trace");
            let file = (bytes.len() <= MAX_EMBEDDED_BYTES).then_some((name, &*bytes));
            match embedded(name, &capture) {
                Ok(timeline) => html::single(&report, file, Timeline::Embedded(&timeline), None),
                Err(why) => {
                    note(&format!("without a timeline: {why}"));
                    html::single(&report, file, Timeline::Without(&why), None)
                }
            }
        }
    };
    Ok(text.into_bytes())
}

/// Makes the timeline that a report includes, or gives the reason for its absence. Its packed size counts, also for a trace
/// in a plain or compressed text file.
fn embedded(name: &str, capture: &Capture) -> Result<Vec<u8>, String> {
    let timeline = timeline::compressed(name, &capture.trace, &capture.analysis);
    let timeline = timeline.map_err(|error| error.to_string())?;
    if timeline.len() <= MAX_EMBEDDED_BYTES {
        return Ok(timeline);
    }
    Err(format!(
        "packed it has {} MB, and a report carries at most {}; `tracetee convert CAPTURE -o timeline.html` writes it to a file",
        timeline.len() >> 20,
        MAX_EMBEDDED_BYTES >> 20
    ))
}

fn of_several(args: &ReportArgs, paths: &[PathBuf]) -> Result<(Vec<u8>, Vec<Verdict>)> {
    let given = mapping(args.mapping.as_deref())?;
    let mut database = Database::open(Path::new(":memory:"))?;
    let mut read = 0;
    for path in paths {
        let mapping = mapping_of(given.as_ref(), path)?;
        let options =
            Options { process: args.process(), mapping: mapping.as_deref(), ..Options::default() };
        let capture = match capture(path, &options, false) {
            Ok(capture) => capture,
            Err(error) => {
                say(&format!("skipped: {error}"));
                continue;
            }
        };
        let process = &capture.analysis.process;
        let others = process.others.iter().map(|other| &other.name);
        let others: Vec<_> = others.filter(|name| !is_system_process(name)).cloned().collect();
        if !others.is_empty() && matches!(args.process(), Which::App) {
            let (path, others) = (path.display(), others.join(", "));
            note(&format!("{path}: reports {}; --process chooses: {others}", process.name));
        }
        let about = &capture.trace.about;
        let id = about.id.as_deref();
        let about = About {
            capture_id: id.map_or_else(|| path.display().to_string(), str::to_owned),
            bytes: path.metadata().map_or(0, |metadata| metadata.len()),
            raw_key: path.display().to_string(),
            ..About::default()
        };
        database.insert(&[from_capture(&about, &capture.trace, &capture.analysis)])?;
        read += 1;
    }
    if read == 0 {
        bail!("none of the {} files is a readable trace", paths.len());
    }
    let report = FleetReport::from_database(&database, &ask(args))?;
    written(args, &report, Some(""), &|raw_key| Ok(PathBuf::from(raw_key)))
}
