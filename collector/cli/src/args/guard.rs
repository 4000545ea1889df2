//! Options of `guard` and `bisect`.

use super::store::StoreOptions;
use clap::{Args, ValueEnum};
use tracetee_fleet::change::segment::Segment;

/// Options of `guard`.
#[derive(Debug, Args)]
pub(crate) struct GuardArgs {
    /// App that is rolled out.
    #[arg(long, value_name = "PACKAGE")]
    pub(crate) app: String,
    /// Version that most devices had before the rollout.
    #[arg(long, value_name = "VERSION")]
    pub(crate) from: String,
    /// Version that is rolled out.
    #[arg(long, value_name = "VERSION")]
    pub(crate) to: String,
    /// Guard only part of the fleet: screen=SCREEN, model=MODEL, api=LEVEL, hz=HZ, separated by commas.
    #[arg(long, value_name = "SEGMENT", default_value = "", hide_default_value = true, value_parser = Segment::parse)]
    pub(crate) segment: Segment,
    /// Rise of all jank that a go must rule out, percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0, value_parser = percent)]
    pub(crate) rise: f64,
    #[command(flatten)]
    pub(crate) store: StoreOptions,
    /// Format of the answer.
    #[arg(long, value_enum, default_value_t = AnswerFormat::Text)]
    pub(crate) format: AnswerFormat,
}

/// Options of `bisect`.
#[derive(Debug, Args)]
pub(crate) struct BisectArgs {
    /// App whose versions are compared.
    #[arg(long, value_name = "PACKAGE")]
    pub(crate) app: String,
    /// Key of the cause, as reports name it [default: all causes].
    #[arg(long, value_name = "KEY")]
    pub(crate) cause: Option<String>,
    /// Include only this screen.
    #[arg(long, value_name = "SCREEN")]
    pub(crate) screen: Option<String>,
    #[command(flatten)]
    pub(crate) store: StoreOptions,
    /// Format of the answer.
    #[arg(long, value_enum, default_value_t = AnswerFormat::Text)]
    pub(crate) format: AnswerFormat,
}

/// Format of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AnswerFormat {
    /// Text for a terminal.
    Text,
    /// JSON for programs.
    Json,
}

pub(super) fn percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|percent| (0.1..=1000.0).contains(percent));
    percent.ok_or_else(|| "not a number between 0.1 and 1000".to_owned())
}
