//! Options of the commands that prepare a collector and maintain its store: `init`, and the commands of `store`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Options of `init`.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Package name of the app that will send.
    #[arg(long, value_name = "PACKAGE")]
    pub(crate) app: String,
    /// URL at which the app will reach the collector.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8440")]
    pub(crate) url: String,
    /// Directory to write to; no file in it is overwritten.
    #[arg(short, long, alias = "out", value_name = "DIR", default_value = "tracetee-server")]
    pub(crate) output: PathBuf,
}

/// The commands of `store`.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Rebuild the tables of a store from its captures.
    ///
    /// The collector of a directory must not be running; those of an object store may. Also replaces tables of an older
    /// version.
    Rebuild(RebuildArgs),
    /// Copy a store while a collector works on it.
    ///
    /// A collector can be started on the copy. A later backup to the same directory copies only new files, and deletes those
    /// that the store no longer has.
    Backup(BackupArgs),
    /// Delete everything that a device has sent to a store.
    Forget(ForgetArgs),
    /// Convert the captures of a store to Parquet tables.
    ///
    /// Reads the objects with the given keys and writes the parts that do not exist yet. Any number of processes can run at
    /// once, and again after a failure: `tracetee store tables --store S --list | tracetee store tables --store S --keys -`.
    Tables(TablesArgs),
    /// Manage the mappings that restore a release's names.
    #[command(subcommand)]
    Mapping(MappingCommand),
}

/// Options of `mcp`.
#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    /// Store of a collector, a directory.
    #[arg(long, value_name = "DIR", default_value = "tracetee-store")]
    pub(crate) store: PathBuf,
}

/// Location of the store for commands that work on it.
#[derive(Debug, Args)]
pub(crate) struct StoreOptions {
    /// The collector's store: a directory, s3://BUCKET/PREFIX, gs://… or az://….
    #[arg(long, value_name = "STORE", default_value = "tracetee-store")]
    pub(crate) store: PathBuf,
    /// Directory for the tables of an object store [default: in the user's cache].
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
}

/// Options of `store rebuild`.
#[derive(Debug, Args)]
pub(crate) struct RebuildArgs {
    /// Store to rebuild: a directory, s3://BUCKET/PREFIX, gs://… or az://….
    #[arg(long, value_name = "STORE", default_value = "tracetee-store")]
    pub(crate) store: PathBuf,
}

/// Options of `store backup`.
#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    #[command(flatten)]
    pub(crate) store: StoreOptions,
    /// Directory to copy to: new, empty, or an earlier backup.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: PathBuf,
}

/// Options of `store forget`.
#[derive(Debug, Args)]
pub(crate) struct ForgetArgs {
    #[command(flatten)]
    pub(crate) store: StoreOptions,
    /// Install id of the device.
    pub(crate) install_id: String,
}

/// Options of `store tables`.
#[derive(Debug, Args)]
pub(crate) struct TablesArgs {
    /// Store to read: a directory, s3://BUCKET/PREFIX, gs://… or az://….
    #[arg(long, value_name = "STORE", default_value = "tracetee-store")]
    pub(crate) store: String,
    /// File with the keys of captures and loss reports, one per line; - is stdin.
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    pub(crate) keys: Option<PathBuf>,
    /// Store to write the tables to [default: --store].
    #[arg(short, long, alias = "out", value_name = "STORE")]
    pub(crate) output: Option<String>,
    /// Number of captures in one part.
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=100_000))]
    pub(crate) batch: usize,
    /// Print the keys of the store and exit.
    #[arg(long)]
    pub(crate) list: bool,
}

/// The commands of `store mapping`.
#[derive(Debug, Subcommand)]
pub(crate) enum MappingCommand {
    /// Upload the mappings of a release to a collector.
    ///
    /// The collector restores the names in all captures of that version, including those already stored.
    Upload(MappingUploadArgs),
}

/// Options of `store mapping upload`.
#[derive(Debug, Args)]
pub(crate) struct MappingUploadArgs {
    /// Mapping files: R8's mapping.txt, the instrumenter's or Matrix's method ids, or one of each.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// URL of the collector.
    #[arg(long, alias = "to", value_name = "URL")]
    pub(crate) url: String,
    /// Package name of the app.
    #[arg(long, value_name = "PACKAGE")]
    pub(crate) app: String,
    /// Name of the app's version, as reports print it.
    #[arg(long, value_name = "VERSION")]
    pub(crate) version: String,
    /// File with the collector's tokens; the first line APP TOKEN mappings is used.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// CA certificates (PEM) to verify the collector with [default: Mozilla's].
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Allow http:// to other machines: mappings and the token are sent unencrypted.
    #[arg(long)]
    pub(crate) cleartext: bool,
}
