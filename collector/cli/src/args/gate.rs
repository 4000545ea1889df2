//! Options of `gate`.

use super::report::FailOn;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Options of `gate`.
#[derive(Debug, Args)]
pub(crate) struct GateArgs {
    /// Results of the build: benchmarkData.json of a macrobenchmark, with its traces in the same directory. May be given
    /// several times.
    #[arg(long, value_name = "FILE", required = true)]
    pub(crate) benchmark: Vec<PathBuf>,
    /// Results of the build to compare with, from the same phone.
    #[arg(long, value_name = "FILE", required = true)]
    pub(crate) base: Vec<PathBuf>,
    /// Process in the traces, and app in the field [default: the app that draws most].
    #[arg(long, value_name = "PACKAGE")]
    pub(crate) app: Option<String>,
    /// Collector's page (https://…) or store, to estimate the change in the field.
    ///
    /// A store is a directory, s3://BUCKET/PREFIX, gs://… or az://….
    #[arg(long, value_name = "STORE", requires = "app")]
    pub(crate) field: Option<PathBuf>,
    /// Version of the app in the field [default: all].
    #[arg(long, value_name = "VERSION", requires = "field")]
    pub(crate) field_version: Option<String>,
    /// Number of captures to read from the field, chosen at random.
    #[arg(long, value_name = "NUMBER", default_value_t = 300, requires = "field", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) field_captures: u32,
    /// File with the collector's tokens; the first line APP TOKEN read is used.
    #[arg(long, value_name = "FILE", requires = "field")]
    pub(crate) token_file: Option<PathBuf>,
    /// CA certificates (PEM) to verify the collector with [default: Mozilla's].
    #[arg(long, value_name = "FILE", requires = "field")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Allow http:// to other machines: answers and the token are sent unencrypted.
    #[arg(long, requires = "field")]
    pub(crate) cleartext: bool,
    /// Deobfuscate names of the traces with FILE: R8's mapping.txt.
    #[arg(long, value_name = "FILE")]
    pub(crate) mapping: Option<PathBuf>,
    /// Change that counts as no change, percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0, value_parser = super::guard::percent)]
    pub(crate) same: f64,
    /// Exit with status 1 if a metric has this verdict.
    #[arg(long, value_enum, value_name = "VERDICT", default_value_t = FailOn::Worse)]
    pub(crate) fail_on: FailOn,
    /// Format of the answer.
    #[arg(long, value_enum, default_value_t = GateFormat::Text)]
    pub(crate) format: GateFormat,
}

/// Format of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GateFormat {
    /// Text for a terminal.
    Text,
    /// Markdown, for a comment on a pull request.
    Markdown,
    /// JSON for programs.
    Json,
}
