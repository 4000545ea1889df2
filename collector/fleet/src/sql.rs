//! One set of queries, for every engine: see `sql/README.md`. Queries that differ in their dimensions alone are
//! rendered from `sql/templates` by a test, and checked in.

/// A query of the set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query {
    /// The file's name, without `.sql`.
    pub name: &'static str,
    /// The statement.
    pub text: &'static str,
}

macro_rules! set {
    ($($constant:ident $name:literal)*) => {
        $(
            #[doc = concat!("`sql/", $name, ".sql`.")]
            pub const $constant: Query =
                Query { name: $name, text: include_str!(concat!("../sql/", $name, ".sql")) };
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
pub const VIEWS: &str = include_str!("../sql/views.sql");

/// Returns the statements that make SQLite's `chosen`: an app and a screen, empty for all.
#[must_use]
pub fn choose(app: &str, screen: &str) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\0', "").replace('\'', "''"));
    format!(
        "DROP VIEW IF EXISTS temp.chosen;\
         CREATE TEMPORARY VIEW chosen AS SELECT {} AS app, {} AS screen;",
        quoted(app),
        quoted(screen)
    )
}

#[cfg(test)]
mod tests {
    use super::SET;
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
        let template = template.replace("{title}", title);
        let mut parts = template.split('{');
        let mut text = parts.next().unwrap().to_owned();
        for part in parts {
            let (repeated, rest) = part.split_once('}').unwrap();
            text.extend(dimensions.iter().map(|name| repeated.replace("dimension", name)));
            text.push_str(rest);
        }
        text
    }

    #[test]
    fn queries_by_dimension_are_those_of_their_templates() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("sql");
        for (name, template, title, dimensions) in RENDERED {
            let template = format!("templates/{template}.sql");
            let text = std::fs::read_to_string(directory.join(&template)).unwrap();
            let rendered =
                format!("-- Rendered from {template}.\n{}", render(&text, title, dimensions));
            let path = directory.join(format!("{name}.sql"));
            if std::env::var_os("TRACETEE_BLESS").is_some() {
                std::fs::write(&path, &rendered).unwrap();
            }
            assert_eq!(std::fs::read_to_string(&path).unwrap(), rendered, "{name}");
            assert!(SET.iter().any(|query| query.name == name), "{name}");
        }
    }
}
