//! The storage of captures, and the tables made of them.
//!
//! [`storage`] is the one place that receives from HTTP: a [`local_store`], which keeps each capture once, or an object store with a
//! `replica` of its tables, which `tend` keeps and which share `parts`. [`indexer`] makes rows of captures, beside what serves
//! ([`analyst`]), and `attempts` knows which analyses were interrupted. [`retention`] deletes by age and by size, [`forget`] by device,
//! [`rebuild`] makes the tables anew, [`backup`] copies a store; [`intents`] ends or undoes these three after a kill.
//! [`mappings`] keeps the names of obfuscated versions (`mapping_files`), and [`reanalysis`] makes new rows of captures that came
//! before their mapping. [`parquet_tables`] makes tables of an object store. [`profiles`] finds profiles of Android's own.

pub(crate) mod analyst;
pub(crate) mod arrived;
mod attempts;
pub(crate) mod backup;
#[cfg(feature = "cloud")]
mod cloud;
#[cfg(feature = "cloud")]
mod cloud_client;
pub(crate) mod commands;
mod damage;
pub(crate) mod disk;
mod entries;
pub(crate) mod forget;
mod id_index;
pub(crate) mod indexer;
mod intents;
pub(crate) mod interrupted;
pub(crate) mod local_store;
pub(crate) mod location;
pub(crate) mod mapping_files;
pub(crate) mod mappings;
mod objects;
pub(crate) mod observed;
mod outbox;
pub(crate) mod parquet_tables;
pub(crate) mod parts;
pub(crate) mod profiles;
mod quarantined;
pub(crate) mod reader;
pub(crate) mod reanalysis;
pub(crate) mod rebuild;
pub(crate) mod replica;
mod replica_guards;
pub(crate) mod replica_mappings;
pub(crate) mod retention;
pub(crate) mod storage;
mod supervised;
pub(crate) mod tend;
#[cfg(test)]
#[path = "test_store_tests.rs"]
mod test_store;
pub(crate) mod validate;

/// Makes all files that this process creates from now on readable by their owner only: captures are personal data.
pub fn make_private() {
    // SAFETY: sets a number of this process.
    unsafe { libc::umask(0o077) };
}
