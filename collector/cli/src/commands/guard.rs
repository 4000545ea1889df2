//! `tracetee guard` and `tracetee bisect`.

use super::findings::{Keeper, MOST_FINDINGS};
use super::store::{tables_in, with_tables};
use crate::args::{AnswerFormat, BisectArgs, GuardArgs};
use crate::terminal::{print, print_report};
use anyhow::{Result, bail};
use std::path::Path;
use std::process::ExitCode;
use tracetee_fleet::change::answer::{Answer, Verdict, answer};
use tracetee_fleet::change::bisect::{Changes, changes};
use tracetee_fleet::change::comparison::{Comparison, comparison};
use tracetee_fleet::change::segment::Segment;
use tracetee_fleet::database::Database;
use tracetee_fleet::report::Tone;
use tracetee_server::make_private;
use tracetee_trace::shown;

/// Exit status of a stop, and of "not yet".
const STOP: u8 = 1;
const NOT_YET: u8 = 2;

/// Checks a rollout. The exit status is the verdict: 0 go, 1 stop, 2 not yet.
pub(crate) fn guard(args: &GuardArgs) -> Result<ExitCode> {
    make_private();
    let GuardArgs { app, from, to, segment, rise, store, format } = args;
    let names = [&**app, &**from, &**to];
    let answer = with_tables(store, |tables, _| look_at(tables, names, segment, *rise))?;
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

/// Checks a rollout in a store; `None` until the tables of a collector of an object store are complete.
pub(super) fn look(
    keeper: &Keeper,
    names: [&str; 3],
    segment: &Segment,
    rise: f64,
) -> Result<Option<Answer>> {
    let tables = match keeper {
        Keeper::Directory(store) => Some(tables_in(store)),
        Keeper::Objects(leased) => leased.replica.complete_tables(),
    };
    tables.map(|tables| look_at(&tables, names, segment, rise)).transpose()
}

/// Like [`look`], with these tables.
fn look_at(
    tables: &Path,
    [app, from, to]: [&str; 3],
    segment: &Segment,
    rise: f64,
) -> Result<Answer> {
    let database = Database::read(tables)?;
    let mut answer = answer(&database.fleets(app, [from, to], segment, false)?, rise);
    for finding in answer.findings.iter_mut().take(MOST_FINDINGS) {
        finding.examples = database.examples(app, to, &finding.root)?;
    }
    Ok(answer)
}

/// Finds the versions with which causes changed.
pub(crate) fn bisect(args: &BisectArgs) -> Result<()> {
    let BisectArgs { app, cause, screen, store, format } = args;
    let read = |tables: &Path| bisected(&Database::read(tables)?, app, screen.as_deref());
    let comparisons = with_tables(store, |tables, _| read(tables))?;
    let mut rows = comparisons.iter().flat_map(|comparison| &comparison.rows).peekable();
    if let Some(cause) = cause.as_deref().filter(|_| rows.peek().is_some())
        && !rows.any(|row| row.is_of(cause))
    {
        bail!("no version has the cause {}: {app}'s report lists the causes", shown(cause));
    }
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

/// Compares each version with the previous one, by captures and by ledgers.
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
