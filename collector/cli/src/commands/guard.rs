//! `tracetee guard` and `tracetee bisect`.

use super::findings::Keeper;
use super::store::{File, copies_beside, tables_in, with_tables};
use crate::args::{AnswerFormat, BisectArgs, GuardArgs};
use crate::input::mapping_of;
use crate::terminal::{note, print, print_report};
use anyhow::{Result, anyhow, bail};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tracetee_fleet::capture::{Capture, read_file};
use tracetee_fleet::change::answer::{Answer, Verdict, answer};
use tracetee_fleet::change::bisect::{Changes, changes};
use tracetee_fleet::change::comparison::{Comparison, comparison};
use tracetee_fleet::change::examples::{CAPTURES, add_examples};
use tracetee_fleet::change::segment::Segment;
use tracetee_fleet::database::Database;
use tracetee_fleet::report::Tone;
use tracetee_jank::Options;
use tracetee_server::make_private;

/// Exit status of a stop, and of "not yet".
const STOP: u8 = 1;
const NOT_YET: u8 = 2;

/// Looks at a rollout. The exit status is the verdict: 0 go, 1 stop, 2 not yet.
pub(crate) fn guard(args: &GuardArgs) -> Result<ExitCode> {
    make_private();
    let GuardArgs { app, from, to, segment, rise, store, format } = args;
    let names = [&**app, &**from, &**to];
    let look = |tables: &Path, file: &File<'_>| look_at(tables, names, segment, *rise, file);
    let answer = with_tables(store, look)?;
    match format {
        AnswerFormat::Text => print_answer(answer.verdict, &answer.to_text([from, to])),
        AnswerFormat::Json => print(&(serde_json::to_string_pretty(&answer)? + "\n")),
    }
    Ok(match answer.verdict {
        Verdict::Go => ExitCode::SUCCESS,
        Verdict::Stop => ExitCode::from(STOP),
        Verdict::NotYet => ExitCode::from(NOT_YET),
    })
}

/// Prints an answer, whose first line is the verdict.
fn print_answer(verdict: Verdict, text: &str) {
    let tone = match verdict {
        Verdict::Go => Tone::Better,
        Verdict::Stop => Tone::Worse,
        Verdict::NotYet => Tone::Late,
    };
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    print_report(&format!("{}\n{rest}", tone.of(first)));
}

/// Looks at a rollout in a store; `None` until the tables of a collector of an object store are complete.
pub(super) fn look(
    keeper: &Keeper,
    names: [&str; 3],
    segment: &Segment,
    rise: f64,
) -> Result<Option<Answer>> {
    let look =
        |tables: &Path, file: &File<'_>| look_at(tables, names, segment, rise, file).map(Some);
    let replica = match keeper {
        Keeper::Directory(store) => {
            return look(&tables_in(store), &|raw_key| Ok(store.join(raw_key)));
        }
        Keeper::Objects(leased) => &leased.replica,
    };
    let Some(tables) = replica.complete_tables() else { return Ok(None) };
    let directory = copies_beside(replica.root())?;
    let file = |raw_key: &str| {
        if !replica.copy(raw_key, directory.path())? {
            bail!("{raw_key} does not exist");
        }
        Ok(directory.path().join(raw_key))
    };
    look(&tables, &file)
}

/// As [`look`], by these tables, and the files of captures by their keys.
fn look_at(
    tables: &Path,
    [app, from, to]: [&str; 3],
    segment: &Segment,
    rise: f64,
    file: &File<'_>,
) -> Result<Answer> {
    let database = Database::read(tables)?;
    let mut answer = answer(&database.fleets(app, [from, to], segment, false)?, rise);
    for finding in &mut answer.findings {
        let kept = database.examples(app, to, &finding.root, CAPTURES)?;
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
    read().map_err(|error| note(&format!("left out an example: {error:#}"))).ok()
}

/// Finds the versions with which causes changed.
pub(crate) fn bisect(args: &BisectArgs) -> Result<()> {
    let BisectArgs { app, cause, screen, store, format } = args;
    let read = |tables: &Path| bisected(&Database::read(tables)?, app, screen.as_deref());
    let comparisons = with_tables(store, |tables, _| read(tables))?;
    let found = changes(comparisons, cause.as_deref());
    print(&match format {
        AnswerFormat::Text if found == Changes::default() => {
            "no change was found from version to version\n".to_owned()
        }
        AnswerFormat::Text => found.to_text(),
        AnswerFormat::Json => serde_json::to_string_pretty(&found)? + "\n",
    });
    Ok(())
}

/// Compares each version with the one before it, by captures and by ledgers.
fn bisected(database: &Database, app: &str, screen: Option<&str>) -> Result<Vec<Comparison>> {
    let segment = Segment { screen: screen.map(Into::into), ..Segment::default() };
    let versions = database.versions(app)?;
    let mut comparisons = Vec::new();
    for pair in versions.windows(2) {
        let [from, to] = [&pair[0], &pair[1]];
        let fleets = database.fleets(app, [from, to], &segment, false)?;
        comparisons.extend(fleets.iter().map(|fleet| comparison(from, to, fleet, 1)));
    }
    Ok(comparisons)
}
