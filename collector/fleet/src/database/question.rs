//! Answers SQL of people and programs over the tables: one `SELECT`, of the apps that whoever asks may see, within limits.
//!
//! Each question has a connection of its own. A view with the name of each table has the rows of those apps, and the
//! authorizer lets nothing else read the tables: the inner view of a table may, and no statement can name it.

use super::{Database, all, quoted_text};
use crate::error::{Error, is_damage};
use crate::schema::{CAPTURES, LOSSES};
use crate::sums::schema::{FLEET_ROLLUPS, ROLLUPS};
use rusqlite::ErrorCode;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use serde::Serialize;
use serde_json::Value;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Rows of an answer.
pub const MOST_ROWS: usize = 200;
/// Time of a question.
pub const TIME_LIMIT: Duration = Duration::from_secs(5);
/// Steps of SQLite's machine between two looks at the clock: a step with two long texts takes tens of ms.
const STEPS: i32 = 100;
/// Begin of the names of the views that may read the tables. A statement that contains it is refused.
const INNER: &str = "tracetee_visible_";
/// Bytes of the values of an answer.
const MAX_BYTES: usize = 64 << 10;
/// Table-valued functions that do not read the file.
const FUNCTIONS: [&str; 2] = ["json_each", "json_tree"];
/// Pages in memory of each sort and temporary table, KiB; the rest is in a file that is deleted.
const CACHE_KIB: i64 = 1024;
/// Limits of a statement. A value has at most 128 KiB: with this length of the statement, some 50 MB are the most that all
/// of its values take.
const LIMITS: [(Limit, i32); 11] = [
    (Limit::SQLITE_LIMIT_LENGTH, 128 << 10),
    (Limit::SQLITE_LIMIT_SQL_LENGTH, 10_000),
    (Limit::SQLITE_LIMIT_COLUMN, 200),
    (Limit::SQLITE_LIMIT_EXPR_DEPTH, 100),
    (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 20),
    (Limit::SQLITE_LIMIT_VDBE_OP, 25_000),
    (Limit::SQLITE_LIMIT_FUNCTION_ARG, 20),
    (Limit::SQLITE_LIMIT_ATTACHED, 0),
    (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 200),
    (Limit::SQLITE_LIMIT_VARIABLE_NUMBER, 10),
    (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
];

/// The answer to a question.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Answered {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The first rows.
    pub rows: Vec<Vec<Value>>,
    /// True if there are more rows than these.
    pub is_cut: bool,
}

/// Returns the names of the tables that a question may read.
fn tables() -> impl Iterator<Item = &'static str> {
    let sums = ROLLUPS.iter().chain(FLEET_ROLLUPS).map(|rollup| rollup.table.name);
    [CAPTURES.name, LOSSES.name].into_iter().chain(sums)
}

impl Database {
    /// Answers one `SELECT` over the tables in a file, with texts for its parameters. `only`: the apps whose rows it sees; `None`
    /// for all.
    ///
    /// # Errors
    /// [`Error::Refused`] with the reason, [`Error::TooSlow`], and those of [`Database::read`].
    pub fn answer(
        path: &Path,
        sql: &str,
        parameters: &[&str],
        only: Option<&[String]>,
        is_unwanted: Option<&Arc<AtomicBool>>,
    ) -> Result<Answered, Error> {
        if sql.to_ascii_lowercase().contains(INNER) {
            return Err(Error::Refused(format!("a statement must not contain {INNER}")));
        }
        let mut database = Self::read(path)?;
        let others = database.restrict(only)?;
        if let Some(name) = hidden(sql, &others) {
            return Err(Error::Refused(format!("access to {name} is prohibited")));
        }
        database.within(Some(TIME_LIMIT), is_unwanted, || {
            database.answer_of(sql, parameters).map_err(|error| match error {
                // These are errors in the question, unlike a timeout or damage.
                Error::Sqlite(error)
                    if error.sqlite_error_code() != Some(ErrorCode::OperationInterrupted)
                        && !is_damage(&error) =>
                {
                    Error::Refused(error.to_string())
                }
                error => error,
            })
        })
    }

    /// Makes the views, and sets limits and authorizer; returns the names of what a question may not see.
    fn restrict(&mut self, only: Option<&[String]>) -> Result<HashSet<String>, Error> {
        let apps = only.map_or_else(String::new, |only| {
            let apps: Vec<String> = only.iter().map(|app| quoted_text(app)).collect();
            format!(" WHERE app IN ({})", apps.join(", "))
        });
        let views = tables().map(|table| {
            format!(
                "CREATE TEMPORARY VIEW {INNER}{table} AS SELECT * FROM main.{table}{apps};\
                 CREATE TEMPORARY VIEW {table} AS SELECT * FROM temp.{INNER}{table};"
            )
        });
        self.run(&views.collect::<String>())?;
        // Names by which a count of rows, which reads no column, would read something else.
        let names = "SELECT lower(name) FROM main.sqlite_schema UNION SELECT lower(name) FROM pragma_module_list";
        let mut others: HashSet<String> = all(&self.connection, names, [], |row| row.get(0))?;
        others.retain(|name| !tables().chain(FUNCTIONS).any(|table| table == name));
        let connection = &mut self.connection;
        connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        connection.pragma_update(None, "query_only", true)?;
        for (limit, most) in LIMITS {
            connection.set_limit(limit, most)?;
        }
        let end = self.end.clone();
        connection.progress_handler(STEPS, Some(move || end.is_reached()))?;
        let is_all = only.is_none();
        let hidden = others.clone();
        connection.authorizer(Some(move |asked: AuthContext<'_>| {
            if is_allowed(&asked, is_all, &others) {
                Authorization::Allow
            } else {
                Authorization::Deny
            }
        }))?;
        Ok(hidden)
    }

    fn answer_of(&self, sql: &str, parameters: &[&str]) -> Result<Answered, Error> {
        let refused = |why: &str| Err(Error::Refused(why.to_owned()));
        let mut statement = self.connection.prepare(sql)?;
        if !statement.readonly() || statement.is_explain() != 0 || statement.column_count() == 0 {
            return refused("only SELECT is answered");
        }
        let columns = statement.column_names().map(str::to_owned).collect();
        let mut answered = Answered { columns, ..Answered::default() };
        let count = answered.columns.len();
        let mut bytes = 0;
        let mut rows = statement.query(rusqlite::params_from_iter(parameters))?;
        while let Some(row) = rows.next()? {
            let values = (0..count).map(|index| row.get_ref(index).map(json));
            let values = values.collect::<rusqlite::Result<Vec<Value>>>()?;
            bytes += values.iter().map(|value| value.as_str().map_or(8, str::len)).sum::<usize>();
            if answered.rows.len() == MOST_ROWS || bytes > MAX_BYTES {
                answered.is_cut = true;
                break;
            }
            answered.rows.push(values);
        }
        Ok(answered)
    }
}

/// Returns the first name of a statement that is none of the views: a schema, or one of `others`. The authorizer does not see
/// all tables: `USING` and `NATURAL` compare columns without asking it.
fn hidden(sql: &str, others: &HashSet<String>) -> Option<String> {
    let names = names(sql);
    let is_schema = |name: &str, next: Option<&String>| {
        matches!(name, "main" | "temp") && next.is_some_and(|next| next == ".")
    };
    let is_hidden = |(index, name): &(usize, &String)| {
        is_schema(name, names.get(index + 1))
            || others.contains(*name)
            || ["sqlite_", "pragma_"].iter().any(|begin| name.starts_with(begin))
    };
    names.iter().enumerate().find(is_hidden).map(|(_, name)| name.clone())
}

/// Returns the words, quoted texts (without quotes) and signs of a statement, in lower case, without comments.
fn names(sql: &str) -> Vec<String> {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$') || !c.is_ascii();
    let mut names = Vec::new();
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let after = |end: &str, from: usize| {
            let text = rest.get(from..).unwrap_or_default();
            text.find(end).map_or(rest.len(), |bytes| from + bytes + end.len())
        };
        let bytes = match first {
            '-' if rest.starts_with("--") => after("\n", 2),
            '/' if rest.starts_with("/*") => after("*/", 2),
            '[' => after("]", 1),
            // Two of them within are one; as two texts, they are no name.
            '\'' | '"' | '`' => after(first.encode_utf8(&mut [0; 4]), 1),
            _ if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let (name, others) = rest.split_at(bytes);
        rest = others;
        let is_comment = name.starts_with("--") || name.starts_with("/*");
        if !is_comment && !first.is_whitespace() {
            let is_quote = |c| matches!(c, '\'' | '"' | '`' | '[' | ']');
            names.push(name.trim_matches(is_quote).to_lowercase());
        }
    }
    names
}

/// True if a statement may do something. `others`: names of other tables, of modules, and of tables that questions do not see.
fn is_allowed(asked: &AuthContext<'_>, is_all: bool, others: &HashSet<String>) -> bool {
    let is_table = |name: &str| tables().any(|table| table == name);
    match asked.action {
        AuthAction::Select | AuthAction::Recursive => true,
        // These aggregates grow beyond the limit of a value until their end.
        AuthAction::Function { function_name } => {
            let name = function_name.to_ascii_lowercase();
            let refused = ["load_extension", "json_group", "jsonb_group", "nearest_rank"];
            !refused.iter().any(|begin| name.starts_with(begin))
        }
        AuthAction::Read { table_name, column_name } => match asked.database_name {
            Some("temp") => is_table(table_name.strip_prefix(INNER).unwrap_or(table_name)),
            Some("main") if FUNCTIONS.contains(&table_name) => true,
            // The inner view, or a count of its rows if it has all of them.
            Some("main") => {
                is_table(table_name)
                    && (asked.accessor.and_then(|view| view.strip_prefix(INNER))
                        == Some(table_name)
                        || is_all && column_name.is_empty())
            }
            // A count of the rows of a view, of a part of the statement, or of a table by its name alone.
            None => {
                let name = table_name.to_ascii_lowercase();
                column_name.is_empty()
                    && !others.contains(&name)
                    && !["sqlite_", "pragma_"].iter().any(|begin| name.starts_with(begin))
            }
            Some(_) => false,
        },
        _ => false,
    }
}

fn json(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
        ValueRef::Blob(bytes) => format!("(blob of {} bytes)", bytes.len()).into(),
    }
}

#[cfg(test)]
#[path = "question_tests.rs"]
mod tests;
