//! One set of queries, for every engine: see `sql/README.md`. Queries that differ in their dimensions alone are
//! rendered from `sql/templates` by a test, and checked in.

use crate::rollup::bucket::{FRAMES, TIMES};
use std::fmt::Write;

/// A query of the set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query {
    /// The file's name, without `.sql`.
    pub name: &'static str,
    /// The statement over rollups.
    pub text: &'static str,
    /// The statement over rows, whose quantiles are exact.
    pub exact: &'static str,
}

macro_rules! set {
    ($($constant:ident $name:literal)*) => {
        $(
            #[doc = concat!("`sql/rollups/", $name, ".sql` and `sql/", $name, ".sql`.")]
            pub const $constant: Query = Query {
                name: $name,
                text: include_str!(concat!("../sql/rollups/", $name, ".sql")),
                exact: include_str!(concat!("../sql/", $name, ".sql")),
            };
        )*
        /// All queries.
        pub const SET: &[Query] = &[$($constant),*];
    };
}

set! {
    CAPTURES "captures"
    FRAMES_BY_VERSION "frames_by_version"
    FRAMES_BY_SCREEN "frames_by_screen"
    FRAMES_BY_DAY "frames_by_day"
    FRAMES_BY_PIPELINE "frames_by_pipeline"
    PERCENTILES_BY_VERSION "percentiles_by_version"
    PERCENTILES_BY_SCREEN "percentiles_by_screen"
    PERCENTILES_BY_PIPELINE "percentiles_by_pipeline"
    CAUSES "causes"
    CAUSES_BY_VERSION "causes_by_version"
    CAUSES_BY_SCREEN "causes_by_screen"
    EXAMPLES "examples"
    COMPARISON "comparison"
    STARTUP "startup"
    STACKS "stacks"
    LOSSES "losses"
}

/// The statements that make the relations of Parquet files.
pub const VIEWS: &str =
    concat!(include_str!("../sql/views.sql"), include_str!("../sql/rollup_views.sql"));

/// Returns the statements that make SQLite's `chosen`: an app and a screen, empty for all; and, as temporary tables,
/// the sums that several queries over rollups read.
#[must_use]
pub fn choose(app: &str, screen: &str) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\0', "").replace('\'', "''"));
    let conditions: Vec<String> = [("app", app), ("screen", screen)]
        .into_iter()
        .filter(|(_, text)| !text.is_empty())
        .map(|(column, text)| format!("{column} = {}", quoted(text)))
        .collect();
    let mut sql = format!(
        "DROP VIEW IF EXISTS temp.chosen;\
         CREATE TEMPORARY VIEW chosen AS SELECT {} AS app, {} AS screen;",
        quoted(app),
        quoted(screen)
    );
    for rollups in ["frame_rollups", "cause_rollups"] {
        let rows = if conditions.is_empty() {
            String::new()
        } else {
            // A comparison with `chosen` would not find the app's rows by the primary key.
            format!(" WHERE {}", conditions.join(" AND "))
        };
        let _ = write!(
            sql,
            "DROP VIEW IF EXISTS temp.chosen_{rollups};\
             CREATE TEMPORARY VIEW chosen_{rollups} AS SELECT * FROM {rollups}{rows};"
        );
    }
    for sums in ["frame_sums", "frame_histograms", "cause_histograms"] {
        let _ = write!(sql, "DROP TABLE IF EXISTS temp.{sums};");
    }
    sql + &SHARED_SUMS.replace("{of}", "chosen_").replace("TEMPORARY VIEW", "TEMPORARY TABLE")
}

/// The statements that make the sums that several queries over rollups read, of the relations of rollups whose names
/// begin with `{of}`.
const SHARED_SUMS: &str = include_str!("../sql/templates/shared_sums.sql");

/// Returns the statements that define the tables of sums over relations of rows, whose names begin with `of`: views
/// `made_…`, with a column `part` more than the tables have.
#[must_use]
pub fn definitions_of_rollups(of: &str) -> String {
    let template = include_str!("../sql/templates/rollups.sql").replace("{of}", of);
    let mut parts = template.split('{');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (call, rest) = part.split_once('}').unwrap_or((part, ""));
        let (buckets, value) = call.split_once(' ').unwrap_or((call, ""));
        text += &if buckets == "frames" { FRAMES.sql(value) } else { TIMES.sql(value) };
        text += rest;
    }
    text
}

/// The statements that define the sums over devices, over the relation `device_rollups`.
pub const DEFINITIONS_OVER_DEVICES: &str = include_str!("../sql/templates/fleet_rollups.sql");

#[cfg(test)]
mod tests {
    use super::{SET, SHARED_SUMS, definitions_of_rollups};
    use crate::rollup::schema::ROLLUPS;
    use std::fmt::Write;
    use std::path::Path;

    /// Query, template, title, and the dimensions besides the app.
    const RENDERED: [(&str, &str, &str, &[&str]); 10] = [
        ("frames_by_version", "frames", "app and version", &["ver"]),
        ("frames_by_screen", "frames", "app, screen and version", &["screen", "ver"]),
        ("frames_by_day", "frames", "app, day and version", &["dt", "ver"]),
        ("frames_by_pipeline", "frames", "app, pipeline and version", &["pipeline", "ver"]),
        ("percentiles_by_version", "percentiles", "app and version", &["ver"]),
        ("percentiles_by_screen", "percentiles", "app, screen and version", &["screen", "ver"]),
        (
            "percentiles_by_pipeline",
            "percentiles",
            "app, pipeline and version",
            &["pipeline", "ver"],
        ),
        ("causes", "causes", "app", &[]),
        ("causes_by_version", "causes", "app and version", &["ver"]),
        ("causes_by_screen", "causes", "app and screen", &["screen"]),
    ];

    /// Repeats text in braces for each dimension.
    fn render(template: &str, title: &str, dimensions: &[&str]) -> String {
        let mut template =
            template.replace("{title}", title).replace("{grouped_by}", &grouped_by(dimensions));
        // The other columns of the group are empty. With all of them, the primary key finds its one row.
        for column in ["dt", "ver", "screen", "pipeline"] {
            let value = match column {
                _ if dimensions.contains(&column) => format!("s.{column}"),
                "screen" => "chosen.screen".to_owned(),
                _ => "''".to_owned(),
            };
            template = template.replace(&format!("{{{column}}}"), &value);
        }
        let mut parts = template.split('{');
        let mut text = parts.next().unwrap().to_owned();
        for part in parts {
            let (repeated, rest) = part.split_once('}').unwrap();
            text.extend(dimensions.iter().map(|name| repeated.replace("dimension", name)));
            text.push_str(rest);
        }
        text
    }

    /// The value of `grouped_by` of the groups of these dimensions: of one screen if one is chosen.
    fn grouped_by(dimensions: &[&str]) -> String {
        let all = dimensions.join(",");
        if dimensions.contains(&"screen") {
            return format!("'{all}'");
        }
        let mut of_screen = dimensions.to_vec();
        of_screen.push("screen");
        of_screen.sort_unstable();
        format!("CASE WHEN chosen.screen = '' THEN '{all}' ELSE '{}' END", of_screen.join(","))
    }

    fn is_as_rendered(file: &str, rendered: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("sql").join(file);
        if std::env::var_os("TRACETEE_BLESS").is_some() {
            std::fs::write(&path, rendered).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), rendered, "{file}");
    }

    fn template(name: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("sql/templates").join(name);
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn queries_by_dimension_are_those_of_their_templates() {
        for (name, of, title, dimensions) in RENDERED {
            for (directory, kind) in [("", ""), ("rollups/", "rollup_")] {
                let from = format!("{kind}{of}.sql");
                let text = render(&template(&from), title, dimensions);
                let rendered = format!("-- Rendered from templates/{from}.\n{text}");
                is_as_rendered(&format!("{directory}{name}.sql"), &rendered);
            }
            assert!(SET.iter().any(|query| query.name == name), "{name}");
        }
    }

    #[test]
    fn views_of_rollups_are_those_of_their_templates() {
        let mut text = template("mixed.sql") + &definitions_of_rollups("mixed_");
        for rollup in ROLLUPS {
            let name = rollup.table.name;
            let columns: Vec<&str> = rollup.table.own_columns().map(|column| column.name).collect();
            let of = |from: &str| {
                let columns: Vec<_> =
                    columns.iter().map(|name| format!("{from}.{name} AS {name}")).collect();
                columns.join(", ")
            };
            let (stored, made) = (of("s"), of("m"));
            let _ = writeln!(
                text,
                "CREATE TEMPORARY VIEW {name} AS\n  SELECT {stored}\n  FROM stored_{name} AS s\n  \
                 LEFT JOIN mixed_parts ON mixed_parts.part = s.part\n  WHERE mixed_parts.part IS NULL\n  \
                 UNION ALL\n  SELECT {made}\n  FROM made_{name} AS m;"
            );
        }
        text += &template("fleet_rollups.sql");
        text += &SHARED_SUMS.replace("{of}", "");
        let rendered = format!(
            "-- Rendered from templates/mixed.sql, rollups.sql, fleet_rollups.sql, shared_sums.sql.\n{text}"
        );
        is_as_rendered("rollup_views.sql", &rendered);
    }
}
