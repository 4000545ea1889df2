//! `tracetee guard` and `tracetee bisect`.

use crate::args::{AnswerFormat, BisectArgs, GuardArgs};
use crate::input::mapping_of;
use crate::terminal::{print, say};
use anyhow::Result;
use std::path::Path;
use std::process::ExitCode;
use tracetee_fleet::bisect::Change;
use tracetee_fleet::capture::{Capture, read_file};
use tracetee_fleet::database::Database;
use tracetee_fleet::guard::examples::{CAPTURES, add_examples};
use tracetee_fleet::guard::fleet::Segment;
use tracetee_fleet::guard::state::{self, Rollout};
use tracetee_fleet::guard::verdict::{Answer, Verdict, answer};
use tracetee_jank::Options;
use tracetee_server::{make_private, tables_of};

/// Exit status of a stop, and of "not yet".
const STOP: u8 = 1;
const NOT_YET: u8 = 2;

/// Looks at a rollout. The exit status is the verdict: 0 go, 1 stop, 2 not yet.
pub(crate) fn guard(args: &GuardArgs) -> Result<ExitCode> {
    make_private();
    let GuardArgs { app, from, to, segment, rise, store, format } = args;
    let answer = look(store, [app, from, to], segment, *rise)?;
    print(&match format {
        AnswerFormat::Text => answer.to_text(),
        AnswerFormat::Json => serde_json::to_string_pretty(&answer)? + "\n",
    });
    Ok(match answer.verdict {
        Verdict::Go => ExitCode::SUCCESS,
        Verdict::Stop => ExitCode::from(STOP),
        Verdict::NotYet => ExitCode::from(NOT_YET),
    })
}

/// Takes the devices of an app's rollout, from a version to another, that have come since the last look, and answers.
pub(super) fn look(
    store: &Path,
    [app, from, to]: [&str; 3],
    segment: &Segment,
    rise: f64,
) -> Result<Answer> {
    let database = Database::read(&tables_of(store))?;
    let segment_text = segment.to_text();
    let rollout = Rollout { app, from, to, segment: &segment_text };
    let read = || database.fleet(app, [from, to], segment);
    let (guard, fleet) = state::look(&state::path(store), rollout, read)?;
    let mut answer = answer(&guard, &fleet, rise);
    for finding in &mut answer.findings {
        let kept = |version| database.examples(app, version, &finding.root, CAPTURES);
        let kept = [kept(from)?, kept(to)?];
        add_examples(finding, &kept, &|raw_key| open(&store.join(raw_key)));
    }
    Ok(answer)
}

/// Reads an example capture. Retention may have deleted it.
fn open(path: &Path) -> Option<Capture> {
    let read = || -> Result<Capture> {
        let mapping = mapping_of(None, path)?;
        let options = Options { mapping: mapping.as_deref(), ..Options::default() };
        Ok(read_file(path, &options)?)
    };
    read().map_err(|error| say(&format!("left out an example: {error:#}"))).ok()
}

/// Finds the versions with which causes changed.
pub(crate) fn bisect(args: &BisectArgs) -> Result<()> {
    let BisectArgs { app, cause, screen, store, format } = args;
    let database = Database::read(&tables_of(store))?;
    let history = database.history(app, cause.as_deref(), screen.as_deref())?;
    let changes = history.changes();
    print(&match format {
        AnswerFormat::Text if changes.is_empty() => {
            let versions: Vec<&str> = history.versions.iter().map(|of| &**of).collect();
            format!(
                "no change was found from version to version; looked at: {}\n",
                versions.join(", ")
            )
        }
        AnswerFormat::Text => changes.iter().map(Change::to_text).collect(),
        AnswerFormat::Json => serde_json::to_string_pretty(&changes)? + "\n",
    });
    Ok(())
}
