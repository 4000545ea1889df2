//! Limits on the distinct names of an app in a day: later names are stored as `(other)`.
//!
//! Reports group by names that devices send. An app that names its screens after products, and a hostile one, would
//! make each report of it longer without end. Names are replaced in what a capture adds, so that one that is deleted is subtracted
//! exactly. The thread that inserts calls this, in its transaction.

use crate::error::Error;
use crate::rows::{Histogram, Ledger};
use crate::schema::{CaptureRow, LedgerScreenRow, LossRow};
use crate::sums::{Contribution, Replaced};
use crate::table::Text;
use foldhash::fast::RandomState;
use hmac_sha256::Hash;
use rusqlite::Transaction;
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::BuildHasher;

/// The name for everything beyond a limit.
pub const OTHER: &str = "(other)";
const OTHER_TEXT: Text = Text::new_static(OTHER);

/// Apps of a store. All other limits apply per app and day.
const APPS: Kind = Kind { name: "apps", most: 1000 };
const VERSIONS: Kind = Kind { name: "versions", most: 200 };
const VERSION_CODES: Kind = Kind { name: "version codes", most: 200 };
const SCREENS: Kind = Kind { name: "screens", most: 200 };
/// Screens, each counted once for each version that has it.
const VERSION_SCREENS: Kind = Kind { name: "screens of versions", most: 1000 };
const CAUSES: Kind = Kind { name: "causes", most: 1000 };
/// Causes, each counted once for each version and screen that has it.
const SCREEN_CAUSES: Kind = Kind { name: "causes of screens", most: 5000 };
/// Stacks, each counted once for each screen that has it.
const STACKS: Kind = Kind { name: "stacks", most: 5000 };
const DEATH_REASONS: Kind = Kind { name: "reasons of deaths", most: 50 };
const LOSS_REASONS: Kind = Kind { name: "reasons of losses", most: 100 };
const EXITS: Kind = Kind { name: "reasons of exits", most: 100 };
const WINDOWS: Kind = Kind { name: "windows of losses", most: 200 };

/// Days of apps whose names stay in memory: 100 KB each at most.
const MAX_DAYS: usize = 64;

/// The table of the names, by their digests.
pub(super) const TABLE: &str = "CREATE TABLE names ( -- Digests of the names that are told apart, by kind.\n  \
     app TEXT, dt TEXT, kind TEXT, digest INTEGER, PRIMARY KEY (app, dt, kind, digest)\n) WITHOUT ROWID;\n";
/// The digest that says that a limit was exceeded.
const EXCEEDED: i64 = 0;

/// A kind of names, and the number of them that are distinguished.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    most: usize,
}

/// Names of an app's day.
#[derive(Debug, Default)]
struct Day {
    /// Digests by kind.
    digests: HashMap<String, HashSet<i64>>,
    /// Quick hashes of those that were admitted since the day is in memory.
    admitted: HashSet<u64, RandomState>,
}

/// The names of the days that rows came for last, as the table has them.
#[derive(Debug, Default)]
pub(super) struct Names {
    days: HashMap<(Text, Text), Day, RandomState>,
}

/// An app's day that rows are inserted for.
struct Admission<'a> {
    transaction: &'a Transaction<'a>,
    app: &'a Text,
    dt: &'a Text,
    day: &'a mut Day,
}

impl Admission<'_> {
    /// True if a name is distinguished; from now on it is, if the limit is not reached.
    fn admit(&mut self, kind: Kind, parts: &[&str]) -> Result<bool, Error> {
        let Day { digests, admitted } = &mut *self.day;
        let quick = admitted.hasher().hash_one((kind.name, parts));
        if admitted.contains(&quick) {
            return Ok(true);
        }
        let digest = digest_of(parts);
        if !digests.contains_key(kind.name) {
            digests.insert(kind.name.to_owned(), HashSet::new());
        }
        let Some(known) = digests.get_mut(kind.name) else { return Ok(false) };
        if known.contains(&digest) {
            admitted.insert(quick);
            return Ok(true);
        }
        let is_admitted = known.len() - usize::from(known.contains(&EXCEEDED)) < kind.most;
        let noted = if is_admitted { digest } else { EXCEEDED };
        if known.insert(noted) {
            let sql = "INSERT OR IGNORE INTO names VALUES (?, ?, ?, ?)";
            self.transaction.prepare_cached(sql)?.execute((
                self.app.as_str(),
                self.dt.as_str(),
                kind.name,
                noted,
            ))?;
        }
        Ok(is_admitted)
    }
}

/// Returns 64 bits that no device can make equal for two names.
fn digest_of(parts: &[&str]) -> i64 {
    let mut hash = Hash::new();
    for part in parts {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let bytes = hash.finalize();
    let first = bytes.first_chunk().map_or(0, |bytes| i64::from_le_bytes(*bytes));
    if first == EXCEEDED { 1 } else { first }
}

impl Names {
    /// Returns a capture with the names that are beyond the limits replaced.
    pub(super) fn limit<'a>(
        &mut self,
        transaction: &Transaction<'_>,
        contribution: &'a Contribution,
    ) -> Result<Cow<'a, Contribution>, Error> {
        let Some(capture) = &contribution.capture else { return Ok(Cow::Borrowed(contribution)) };
        let is_app = self.admits_app(transaction, &capture.app)?;
        let app = if is_app { &capture.app } else { &OTHER_TEXT };
        let mut day = self.admission(transaction, app, &capture.dt)?;
        let is_version = day.admit(VERSIONS, &[&capture.ver])?;
        let ver = if is_version { &*capture.ver } else { OTHER };
        let is_code = match capture.version_code {
            Some(code) => is_version && day.admit(VERSION_CODES, &[&code.to_string()])?,
            None => true,
        };
        let sums = &contribution.sums;
        let names = sums.names();
        let mut replaced = Replaced {
            app: !is_app,
            ver: !is_version,
            version_code: !is_code,
            ..Replaced::default()
        };
        for screen in names.screens {
            let name = sums.text(screen);
            if !day.admit(SCREENS, &[name])? || !day.admit(VERSION_SCREENS, &[ver, name])? {
                replaced.screens.insert(screen);
            }
        }
        let screen_of = |replaced: &Replaced, screen| {
            if replaced.screens.contains(&screen) { OTHER } else { sums.text(screen) }
        };
        for [screen, cause, key] in names.causes {
            let [on, named, by] = [screen_of(&replaced, screen), sums.text(cause), sums.text(key)];
            if !day.admit(CAUSES, &[named, by])?
                || !day.admit(SCREEN_CAUSES, &[ver, on, named, by])?
            {
                replaced.causes.insert([screen, cause, key]);
            }
        }
        for [screen, stack] in names.stacks {
            if !day.admit(STACKS, &[screen_of(&replaced, screen), sums.text(stack)])? {
                replaced.stacks.insert([screen, stack]);
            }
        }
        for reason in names.reasons {
            if !day.admit(DEATH_REASONS, &[sums.text(reason)])? {
                replaced.reasons.insert(reason);
            }
        }
        if replaced.is_empty() {
            return Ok(Cow::Borrowed(contribution));
        }
        let capture = CaptureRow {
            app: app.clone(),
            ver: Text::from(ver),
            version_code: capture.version_code.filter(|_| is_code),
            ..capture.clone()
        };
        let sums = sums.renamed(&replaced, OTHER);
        Ok(Cow::Owned(Contribution { capture: Some(capture), sums, ..contribution.clone() }))
    }

    /// Returns a row of a loss report with the names that are beyond the limits replaced.
    pub(super) fn limit_loss<'a>(
        &mut self,
        transaction: &Transaction<'_>,
        loss: &'a LossRow,
    ) -> Result<Cow<'a, LossRow>, Error> {
        let is_app = self.admits_app(transaction, &loss.app)?;
        let app = if is_app { &loss.app } else { &OTHER_TEXT };
        let mut day = self.admission(transaction, app, &loss.dt)?;
        let is_reason = day.admit(LOSS_REASONS, &[&loss.reason])?;
        let is_window = day.admit(WINDOWS, &[&loss.window_id])?;
        if is_app && is_reason && is_window {
            return Ok(Cow::Borrowed(loss));
        }
        let mut loss = loss.clone();
        loss.app = app.clone();
        if !is_reason {
            loss.reason = OTHER_TEXT;
        }
        if !is_window {
            loss.window_id = OTHER_TEXT;
        }
        Ok(Cow::Owned(loss))
    }

    /// Returns a part of a ledger with the names that are beyond the limits replaced.
    pub(super) fn limit_ledger<'a>(
        &mut self,
        transaction: &Transaction<'_>,
        ledger: &'a Ledger,
    ) -> Result<Cow<'a, Ledger>, Error> {
        let is_app = self.admits_app(transaction, &ledger.day.app)?;
        let app = if is_app { &ledger.day.app } else { &OTHER_TEXT };
        let mut day = self.admission(transaction, app, &ledger.day.dt)?;
        let is_version = day.admit(VERSIONS, &[&ledger.day.ver])?;
        let ver = if is_version { &ledger.day.ver } else { &OTHER_TEXT };
        let mut replaced = HashSet::new();
        for LedgerScreenRow { screen, .. } in &ledger.screens {
            let is_named = screen.is_empty()
                || (day.admit(SCREENS, &[screen])?
                    && day.admit(VERSION_SCREENS, &[ver, screen])?);
            replaced.extend((!is_named).then_some(screen));
        }
        let mut reasons = HashSet::new();
        for Histogram { name, .. } in ledger.histograms.iter().filter(|row| row.is_exit()) {
            if !day.admit(EXITS, &[name])? {
                reasons.insert(name);
            }
        }
        if is_app && is_version && replaced.is_empty() && reasons.is_empty() {
            return Ok(Cow::Borrowed(ledger));
        }
        let mut limited = ledger.clone();
        (limited.day.app, limited.day.ver) = (app.clone(), ver.clone());
        let screens = limited.screens.iter_mut().map(|row| &mut row.screen);
        let screens = screens.chain(limited.histograms.iter_mut().map(|row| &mut row.screen));
        screens
            .filter(|screen| replaced.contains(&**screen))
            .for_each(|screen| *screen = OTHER_TEXT);
        let exits =
            limited.histograms.iter_mut().filter(|row| row.is_exit()).map(|row| &mut row.name);
        exits.filter(|name| reasons.contains(&**name)).for_each(|name| *name = OTHER_TEXT);
        Ok(Cow::Owned(limited))
    }

    /// Forgets the names of those days that have neither captures nor ledgers any longer.
    pub(super) fn remove(
        &mut self,
        transaction: &Transaction<'_>,
        days: &BTreeSet<(Text, Text)>,
    ) -> Result<(), Error> {
        let sql = "DELETE FROM names WHERE app = ?1 AND dt = ?2 \
                   AND NOT EXISTS (SELECT 1 FROM captures WHERE dt = ?2 AND app = ?1) \
                   AND NOT EXISTS (SELECT 1 FROM ledger_days WHERE app = ?1 AND dt = ?2)";
        for day in days {
            let (app, dt) = day;
            transaction.prepare_cached(sql)?.execute([app.as_str(), dt.as_str()])?;
            self.days.remove(day);
        }
        Ok(())
    }

    fn admits_app(&mut self, transaction: &Transaction<'_>, app: &Text) -> Result<bool, Error> {
        let none = Text::default();
        self.admission(transaction, &none, &none)?.admit(APPS, &[app])
    }

    /// Returns the names of an app's day; reads them if they are not in memory.
    fn admission<'a>(
        &'a mut self,
        transaction: &'a Transaction<'_>,
        app: &'a Text,
        dt: &'a Text,
    ) -> Result<Admission<'a>, Error> {
        let key = (app.clone(), dt.clone());
        if !self.days.contains_key(&key) {
            if self.days.len() >= MAX_DAYS {
                self.days.clear();
            }
            let mut day = Day::default();
            let sql = "SELECT kind, digest FROM names WHERE app = ? AND dt = ?";
            let mut statement = transaction.prepare_cached(sql)?;
            let mut found = statement.query([app.as_str(), dt.as_str()])?;
            while let Some(row) = found.next()? {
                day.digests.entry(row.get(0)?).or_default().insert(row.get(1)?);
            }
            self.days.insert(key.clone(), day);
        }
        let day = self.days.entry(key).or_default();
        Ok(Admission { transaction, app, dt, day })
    }
}

/// A limit that was exceeded.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Exceeded {
    /// Plural of the limited kind: `screens`, `causes` …
    pub kind: String,
    /// Distinguished names of a day; later ones count as [`OTHER`].
    pub limit: u64,
    /// Days on which there were more.
    pub days: u64,
}

impl super::Database {
    /// Returns the limits of names that an app has exceeded.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn exceeded_limits(&self, app: &str) -> Result<Vec<Exceeded>, Error> {
        let sql = "SELECT kind, COUNT(*) FROM names WHERE app = ? AND digest = ? GROUP BY kind";
        let kinds = [
            VERSIONS,
            VERSION_CODES,
            SCREENS,
            VERSION_SCREENS,
            CAUSES,
            SCREEN_CAUSES,
            STACKS,
            LOSS_REASONS,
            EXITS,
            WINDOWS,
        ];
        super::all(&self.connection, sql, (app, EXCEEDED), |row| {
            let kind: String = row.get(0)?;
            let limit = kinds.iter().find(|one| one.name == kind).map_or(0, |one| one.most as u64);
            Ok(Exceeded { kind, limit, days: row.get::<_, i64>(1)?.unsigned_abs() })
        })
    }
}

#[cfg(test)]
#[path = "name_limits_tests.rs"]
mod tests;
