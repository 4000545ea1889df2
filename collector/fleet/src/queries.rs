//! The queries over sums that make reports: templates in `queries/`, rendered when a report is made. See `queries/README.md`.

use crate::database::quoted_text as quoted;
use crate::sums::schema::ROLLUPS;
use crate::table::Column;

/// A query of the set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query {
    /// The name; that of a query over rows in `tests/fleet/sql` with the same answer.
    pub name: &'static str,
    template: &'static str,
    /// The columns that the answer is grouped by, after the app.
    dimensions: &'static [&'static str],
}

macro_rules! set {
    ($($constant:ident $name:literal $template:literal $dimensions:expr;)*) => {
        $(
            #[doc = concat!("`queries/", $template, ".sql`.")]
            pub const $constant: Query = Query {
                name: $name,
                template: include_str!(concat!("../queries/", $template, ".sql")),
                dimensions: &$dimensions,
            };
        )*
        /// All queries.
        pub const SET: &[Query] = &[$($constant),*];
    };
}

set! {
    CAPTURES "captures" "captures" [];
    FRAMES "frames" "frames" [];
    FRAMES_BY_VERSION "frames_by_version" "frames" ["ver"];
    FRAMES_BY_SCREEN "frames_by_screen" "frames" ["screen", "ver"];
    FRAMES_BY_DAY "frames_by_day" "frames" ["dt", "ver"];
    FRAMES_BY_PIPELINE "frames_by_pipeline" "frames" ["pipeline", "ver"];
    PERCENTILES_BY_VERSION "percentiles_by_version" "percentiles" ["ver"];
    PERCENTILES_BY_SCREEN "percentiles_by_screen" "percentiles" ["screen", "ver"];
    PERCENTILES_BY_PIPELINE "percentiles_by_pipeline" "percentiles" ["pipeline", "ver"];
    CAUSES "causes" "causes" [];
    CAUSES_BY_VERSION "causes_by_version" "causes" ["ver"];
    CAUSES_BY_SCREEN "causes_by_screen" "causes" ["screen"];
    EXAMPLES "examples" "examples" [];
    STARTUP "startup" "startup" [];
    STACKS "stacks" "stacks" [];
    DEATHS "deaths" "deaths" [];
    DEATHS_BY_KEY "deaths_by_key" "deaths" ["cause_key"];
    DEATHS_BY_VERSION "deaths_by_version" "deaths" ["ver"];
    LOSSES "losses" "losses" [];
    LEDGERS "ledgers" "ledgers" [];
    LEDGER_FRAMES_BY_VERSION "ledger_frames_by_version" "ledger_frames" ["ver"];
    LEDGER_FRAMES_BY_SCREEN "ledger_frames_by_screen" "ledger_frames" ["screen", "ver"];
    LEDGER_OVERRUNS_BY_VERSION "ledger_overruns_by_version" "ledger_overruns" ["ver"];
    LEDGER_OVERRUNS_BY_SCREEN "ledger_overruns_by_screen" "ledger_overruns" ["screen", "ver"];
    LEDGER_STARTS "ledger_starts" "ledger_starts" [];
}

impl Query {
    /// Returns the statement.
    #[must_use]
    pub fn text(&self) -> String {
        render(self.template, self.dimensions)
    }
}

/// Replaces text in braces: names of columns of `reach` by the values that select a group's row, `sums TABLE ALIAS` by
/// the sums of a table, and all other text by itself for each dimension.
fn render(template: &str, dimensions: &[&str]) -> String {
    let mut parts = template.split('{');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (call, rest) = part.split_once('}').unwrap_or((part, ""));
        let has = dimensions.contains(&call);
        text += &match (call, &*call.split(' ').collect::<Vec<_>>()) {
            ("grouped_by", _) => grouped_by(dimensions),
            // The other columns of the group are empty. With all of them, the primary key finds its one row.
            ("dt" | "ver" | "screen" | "pipeline", _) if has => format!("s.{call}"),
            ("screen", _) => "chosen.screen".to_owned(),
            ("dt" | "ver" | "pipeline", _) => "''".to_owned(),
            (_, &["sums", table, alias]) => sums(table, alias),
            _ => dimensions.iter().map(|name| call.replace("dimension", name)).collect(),
        };
        text += rest;
    }
    text
}

/// The value of `grouped_by` of the groups of these dimensions: of one screen if one is chosen.
fn grouped_by(dimensions: &[&str]) -> String {
    let all = dimensions.join(",");
    if dimensions.contains(&"screen") {
        return format!("'{all}'");
    }
    let mut by_screen = dimensions.to_vec();
    by_screen.push("screen");
    by_screen.sort_unstable();
    format!("CASE WHEN chosen.screen = '' THEN '{all}' ELSE '{}' END", by_screen.join(","))
}

/// Expressions of all sums of a table.
fn sums(table: &str, alias: &str) -> String {
    let rollup = ROLLUPS.iter().find(|rollup| rollup.table.name == table);
    let columns = rollup.into_iter().flat_map(|rollup| rollup.table.columns.get(rollup.keys..));
    let sum = |sum: &Column| format!("SUM({alias}.{0}) AS {0}", sum.name);
    columns.flatten().map(sum).collect::<Vec<_>>().join(", ")
}

/// Returns the statements that make `chosen`: an app and a screen, empty for all; and, as temporary tables, the sums that
/// several queries read.
#[must_use]
pub fn choose(app: &str, screen: &str) -> String {
    let mut sql = format!(
        "DROP VIEW IF EXISTS temp.chosen;\
         CREATE TEMPORARY VIEW chosen AS SELECT {} AS app, {} AS screen;",
        quoted(app),
        quoted(screen)
    );
    for rollups in ["frame_rollups", "cause_rollups"] {
        sql += &chosen_rows(rollups, &[("app", app), ("screen", screen)]);
    }
    for rollups in ["ledger_rollups", "ledger_frames", "ledger_histograms"] {
        sql += &chosen_rows(rollups, &[("app", app)]);
    }
    sql + &render(include_str!("../queries/shared_sums.sql"), &[])
}

/// Returns the statement that makes a view of the rows of a table with these texts; an empty one selects all.
fn chosen_rows(table: &str, columns: &[(&str, &str)]) -> String {
    let conditions = columns.iter().filter(|(_, text)| !text.is_empty());
    let conditions: Vec<String> =
        conditions.map(|(column, text)| format!("{column} = {}", quoted(text))).collect();
    let rows = if conditions.is_empty() {
        String::new()
    } else {
        // A comparison with `chosen` would not find the app's rows by the primary key.
        format!(" WHERE {}", conditions.join(" AND "))
    };
    format!(
        "DROP VIEW IF EXISTS temp.chosen_{table};\
         CREATE TEMPORARY VIEW chosen_{table} AS SELECT * FROM {table}{rows};"
    )
}
