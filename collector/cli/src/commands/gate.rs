//! `tracetee gate`.

use super::collector_page::CollectorPage;
use super::store::with_tables;
use crate::args::{FailOn, GateArgs, GateFormat, StoreOptions};
use crate::input::{capture, mapping, mapping_of};
use crate::terminal::{print, say};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tracetee_fleet::database::{Database, late_of_ledgers, scheduled};
use tracetee_gate::{Answer, Field, Gate};
use tracetee_jank::{Options, Which};
use tracetee_trace::Mapping;

/// Exit status of a build that fails.
const FAILS: u8 = 1;
/// Captures in a collector's answer, which has room for them.
const PAGE_ROWS: usize = 50;
/// Time in which a collector has to send the captures.
const FIELD_TIME: Duration = Duration::from_secs(600);

/// Compares the macrobenchmarks of two builds.
pub(crate) fn gate(args: &GateArgs) -> Result<ExitCode> {
    let is_url = |text: &&str| text.starts_with("http://") || text.starts_with("https://");
    let url = args.field.as_deref().and_then(Path::to_str).filter(is_url);
    if url.is_none() && (args.token_file.is_some() || args.ca_file.is_some() || args.cleartext) {
        bail!("--token-file, --ca-file and --cleartext need a collector's address in --field");
    }
    let given = mapping(args.mapping.as_deref())?;
    let process = args.app.as_deref().map_or(Which::App, Which::Named);
    let options =
        Options { process, mapping: given.as_ref(), without_details: true, ..Options::default() };
    let read = |path: &Path| capture(path, &options, false);
    let mut gate = Gate::compare(&args.benchmark, &args.base, args.same, read)?;
    let sections = gate.sections_with_factor();
    if let (Some(store), Some(app), false) = (&args.field, &args.app, sections.is_empty()) {
        gate.translate(&match url {
            Some(url) => field_of_collector(args, url, app, sections)?,
            None => field_of_store(args, store, app, &sections)?,
        });
    }
    print(&match args.format {
        GateFormat::Text => gate.to_text(),
        GateFormat::Markdown => gate.to_markdown(),
        GateFormat::Json => serde_json::to_string_pretty(&gate)? + "\n",
    });
    let fails = match gate.answer {
        Answer::Worse => true,
        Answer::Unknown => args.fail_on == FailOn::Unknown,
        Answer::Same | Answer::Better => false,
    };
    Ok(if fails { ExitCode::from(FAILS) } else { ExitCode::SUCCESS })
}

fn field_of_store(args: &GateArgs, store: &Path, app: &str, sections: &[String]) -> Result<Field> {
    let options = StoreOptions { store: store.to_owned(), cache: None };
    with_tables(&options, |tables, file| {
        let (version, most) = (args.field_version.as_deref(), args.field_captures);
        let tables = Database::read(tables)?;
        let mut field = Field::new(sections.to_vec());
        field.of_ledgers = rate(tables.rows(&late_of_ledgers(app, version))?);
        for (raw_key, device) in tables.scheduled(app, version, most)? {
            let path = file(&raw_key)?;
            // The mapping of the capture's version: the given one belongs to the build.
            add(&mut field, &device, &path, mapping_of(None, &path)?.as_deref());
        }
        Ok(field)
    })
}

/// Asks a collector for the captures that [`field_of_store`] reads. The collector restores the names in them.
fn field_of_collector(
    args: &GateArgs,
    url: &str,
    app: &str,
    sections: Vec<String>,
) -> Result<Field> {
    let page = CollectorPage::new(url, args)?;
    let (end, most) = (Instant::now() + FIELD_TIME, args.field_captures as usize);
    let (mut field, mut asked) = (Field::new(sections), 0);
    let file = tempfile::NamedTempFile::new()?;
    field.of_ledgers = rate(rows(&page, &late_of_ledgers(app, args.field_version.as_deref()))?);
    let select = scheduled(app, args.field_version.as_deref());
    while asked < most {
        let limit = PAGE_ROWS.min(most - asked);
        let sql =
            format!("SELECT capture_id AS id, device FROM ({select} LIMIT {limit} OFFSET {asked})");
        let captures = rows(&page, &sql)?;
        for (id, device) in &captures {
            if Instant::now() > end {
                bail!(
                    "the collector did not send {most} captures in {} s; pass fewer with --field-captures",
                    FIELD_TIME.as_secs()
                );
            }
            if let Some(capture) = page.capture(id)? {
                std::fs::write(&file, capture)?;
                add(&mut field, device, file.path(), None);
            }
        }
        asked += limit;
        if captures.len() < limit {
            break;
        }
    }
    Ok(field)
}

/// Returns the source of ledgers that has most frames, and its late frames, percent.
fn rate(mut rows: Vec<(String, String)>) -> Option<(String, f64)> {
    rows.pop().and_then(|(source, late)| Some((format!("ledgers ({source})"), late.parse().ok()?)))
}

/// Returns the two texts of each row in a collector's answer.
fn rows(page: &CollectorPage, sql: &str) -> Result<Vec<(String, String)>> {
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "query", "arguments": {"sql": sql}}});
    let answer: Value = serde_json::from_slice(&page.call(call.to_string().as_bytes())?)
        .context("the collector's answer is not JSON")?;
    let content = &answer["result"]["structuredContent"];
    if let Some(why) = content["error"].as_str() {
        bail!("the collector refuses: {why}");
    }
    let rows = content["rows"].as_array().context("the collector's answer has no rows")?;
    let texts = |row: &Value| Some((row[0].as_str()?.to_owned(), row[1].as_str()?.to_owned()));
    Ok(rows.iter().filter_map(texts).collect())
}

/// Adds a capture of the field.
fn add(field: &mut Field, device: &str, path: &Path, mapping: Option<&Mapping>) {
    let options = Options { mapping, without_details: true, ..Options::default() };
    match capture(path, &options, false) {
        Ok(capture) => field.add(device, &capture),
        Err(error) => say(&format!("skipped: {error}")),
    }
}
