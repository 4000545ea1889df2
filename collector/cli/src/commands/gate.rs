//! `tracetee gate`.

use super::store::with_tables;
use crate::args::{FailOn, GateArgs, GateFormat, StoreOptions};
use crate::input::{mapping, mapping_of};
use crate::terminal::{print, say};
use anyhow::Result;
use std::path::Path;
use std::process::ExitCode;
use tracetee_fleet::capture::read_file;
use tracetee_fleet::database::Database;
use tracetee_gate::{Answer, Field, Gate};
use tracetee_jank::{Options, Which};

/// Exit status of a build that fails.
const FAILS: u8 = 1;

/// Compares the macrobenchmarks of two builds.
pub(crate) fn gate(args: &GateArgs) -> Result<ExitCode> {
    let given = mapping(args.mapping.as_deref())?;
    let process = args.app.as_deref().map_or(Which::App, Which::Named);
    let options =
        Options { process, mapping: given.as_ref(), without_details: true, ..Options::default() };
    let read = |path: &Path| read_file(path, &options);
    let mut gate = Gate::compare(&args.benchmark, &args.base, args.same, read)?;
    let sections = gate.sections_with_factor();
    if let (Some(store), Some(app), false) = (&args.field, &args.app, sections.is_empty()) {
        let options = StoreOptions { store: store.clone(), cache: None };
        let field = with_tables(&options, |tables, file| {
            let (version, most) = (args.field_version.as_deref(), args.field_captures);
            let captures = Database::read(tables)?.scheduled(app, version, most)?;
            let mut field = Field::new(sections.clone());
            for (raw_key, device) in captures {
                let path = file(&raw_key)?;
                // That of the capture's version: the given one is the build's.
                let mapping = mapping_of(None, &path)?;
                let options = Options {
                    mapping: mapping.as_deref(),
                    without_details: true,
                    ..Options::default()
                };
                match read_file(&path, &options) {
                    Ok(capture) => field.add(&device, &capture),
                    Err(error) => say(&format!("skipped: {error}")),
                }
            }
            Ok(field)
        })?;
        gate.translate(&field);
    }
    print(&match args.format {
        GateFormat::Text => gate.to_text(),
        GateFormat::Markdown => gate.to_markdown(),
        GateFormat::Json => serde_json::to_string_pretty(&gate)? + "\n",
    });
    let has = |answer| gate.metrics.iter().any(|metric| metric.answer == answer);
    let is_unknown = args.fail_on == FailOn::Unknown && has(Answer::Unknown);
    let fails = has(Answer::Worse) || is_unknown;
    Ok(if fails { ExitCode::from(FAILS) } else { ExitCode::SUCCESS })
}
