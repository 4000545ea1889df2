//! The storage of captures, and the tables made of them.
//!
//! [`storage`] is the one place that receives from HTTP. Rooms, each of which knows only those before it: [`objects`] is what a directory
//! and an object store have in common; [`captures`] is what a directory keeps, and what retention deletes; [`mappings`] are the names of
//! obfuscated versions; [`index`] makes rows of captures, beside what serves; [`share`] has the replica of an object store, whose
//! collectors share the rows. Above them, [`tend`] keeps a replica, [`reanalysis`] makes new rows of captures that came before their
//! mapping, and [`commands`] are those of `tracetee store`: [`forget`] deletes by device, [`backup`] copies a store, and [`interrupted`] ends
//! or undoes what was killed. [`parquet_tables`] makes tables of any store.

use rustix::fs::Mode;

pub(crate) mod backup;
pub(crate) mod captures;
pub(crate) mod commands;
pub(crate) mod forget;
pub(crate) mod index;
pub(crate) mod interrupted;
pub(crate) mod mappings;
pub(crate) mod objects;
pub(crate) mod parquet_tables;
pub(crate) mod reanalysis;
pub(crate) mod share;
pub(crate) mod storage;
pub(crate) mod tend;
#[cfg(test)]
#[path = "test_store_tests.rs"]
mod test_store;

/// Makes all files that this process creates from now on readable by their owner only: captures are personal data.
pub fn make_private() {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
}
