//! One set of queries, for every engine. See `sql/README.md`.

/// A query of the set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query {
    /// Its file's name, without `.sql`.
    pub name: &'static str,
    /// What it says.
    pub text: &'static str,
}

macro_rules! set {
    ($($constant:ident $name:literal)*) => {
        $(
            #[doc = concat!("`sql/", $name, ".sql`.")]
            pub const $constant: Query =
                Query { name: $name, text: include_str!(concat!("../sql/", $name, ".sql")) };
        )*
        /// All of them.
        pub const SET: &[Query] = &[$($constant),*];
    };
}

set! {
    CAPTURES "captures"
    FRAMES_BY_VERSION "frames_by_version"
    FRAMES_BY_SCREEN "frames_by_screen"
    FRAMES_BY_DAY "frames_by_day"
    PERCENTILES_BY_VERSION "percentiles_by_version"
    PERCENTILES_BY_SCREEN "percentiles_by_screen"
    CAUSES "causes"
    CAUSES_BY_VERSION "causes_by_version"
    CAUSES_BY_SCREEN "causes_by_screen"
    EXAMPLES "examples"
    COMPARISON "comparison"
    STARTUP "startup"
    STACKS "stacks"
    LOSSES "losses"
}

/// What makes the relations of Parquet files.
pub const VIEWS: &str = include_str!("../sql/views.sql");

/// SQLite's `chosen`: an app and a screen, empty for all.
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
