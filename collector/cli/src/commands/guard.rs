//! `tracetee guard` and `tracetee bisect`.

use super::store::{copies_beside, location, tables_in, with_copies};
use crate::args::{AnswerFormat, BisectArgs, GuardArgs};
use crate::input::mapping_of;
use crate::terminal::{print, say};
use anyhow::{Result, anyhow, bail};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tracetee_fleet::bisect::Change;
use tracetee_fleet::capture::{Capture, read_file};
use tracetee_fleet::database::Database;
use tracetee_fleet::guard::examples::{CAPTURES, add_examples};
use tracetee_fleet::guard::fleet::Segment;
use tracetee_fleet::guard::state::{self, Rollout};
use tracetee_fleet::guard::verdict::{Answer, Verdict, answer};
use tracetee_jank::Options;
use tracetee_server::{Replica, make_private};
use tracetee_trace::shown;

/// Exit status of a stop, and of "not yet".
const STOP: u8 = 1;
const NOT_YET: u8 = 2;

/// Looks at a rollout. The exit status is the verdict: 0 go, 1 stop, 2 not yet.
pub(crate) fn guard(args: &GuardArgs) -> Result<ExitCode> {
    make_private();
    let GuardArgs { app, from, to, segment, rise, store, cache, format } = args;
    let names = [&**app, &**from, &**to];
    let answer = match location(store) {
        (address, true) => with_copies(&address, cache.as_deref(), |copies| {
            copies.reader.with_guards(&mut |guards| {
                let file = |raw_key: &str| copies.file(raw_key);
                look_at(&copies.reader.tables(), guards, names, segment, *rise, &file)
            })
        })?,
        (_, false) => look(store, names, segment, *rise)?,
    };
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
pub(super) fn look(store: &Path, names: [&str; 3], segment: &Segment, rise: f64) -> Result<Answer> {
    let file = |raw_key: &str| Ok(store.join(raw_key));
    look_at(&tables_in(store), &state::path(store), names, segment, rise, &file)
}

/// As [`look`], in an object store, by the tables of a collector; `None` until they are complete.
pub(super) fn look_in_objects(
    replica: &Replica,
    names: [&str; 3],
    segment: &Segment,
    rise: f64,
) -> Result<Option<Answer>> {
    let Some(tables) = replica.complete_tables() else { return Ok(None) };
    let directory = copies_beside(replica.root())?;
    let file = |raw_key: &str| {
        if !replica.copy(raw_key, directory.path())? {
            bail!("{raw_key} does not exist");
        }
        Ok(directory.path().join(raw_key))
    };
    let mut work = |guards: &Path| look_at(&tables, guards, names, segment, rise, &file);
    replica.with_guards(&mut work).map(Some)
}

/// As [`look`], by these tables, the guards' states, and the files of captures by their keys.
fn look_at(
    tables: &Path,
    guards: &Path,
    [app, from, to]: [&str; 3],
    segment: &Segment,
    rise: f64,
    file: &dyn Fn(&str) -> Result<PathBuf>,
) -> Result<Answer> {
    let database = Database::read(tables)?;
    let segment_text = segment.to_text();
    let rollout = Rollout { app, from, to, segment: &segment_text };
    let read = || database.fleet(app, [from, to], segment);
    let (guard, fleet) = state::look(guards, rollout, read)?;
    let mut answer = answer(&guard, &fleet, rise);
    for finding in &mut answer.findings {
        let kept = |version| database.examples(app, version, &finding.root, CAPTURES);
        let kept = [kept(from)?, kept(to)?];
        add_examples(finding, &kept, &|raw_key| open(&file(raw_key)));
    }
    Ok(answer)
}

/// Reads an example capture. Retention may have deleted it.
fn open(path: &Result<PathBuf>) -> Option<Capture> {
    let read = || -> Result<Capture> {
        let path = path.as_ref().map_err(|error| anyhow!("{error:#}"))?;
        let mapping = mapping_of(None, path)?;
        let options = Options { mapping: mapping.as_deref(), ..Options::default() };
        Ok(read_file(path, &options)?)
    };
    read().map_err(|error| say(&format!("left out an example: {error:#}"))).ok()
}

/// Finds the versions with which causes changed.
pub(crate) fn bisect(args: &BisectArgs) -> Result<()> {
    let BisectArgs { app, cause, screen, store, cache, format } = args;
    let read = |tables: &Path| {
        Ok(Database::read(tables)?.history(app, cause.as_deref(), screen.as_deref())?)
    };
    let history = match location(store) {
        (address, true) => {
            with_copies(&address, cache.as_deref(), |copies| read(&copies.reader.tables()))?
        }
        (_, false) => read(&tables_in(store))?,
    };
    let changes = history.changes();
    print(&match format {
        AnswerFormat::Text if changes.is_empty() => {
            let versions: Vec<_> = history.versions.iter().map(|of| shown(of)).collect();
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
