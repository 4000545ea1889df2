//! Tables of a fleet's captures, queries over them, and reports.
//!
//! The journey of a capture: [`capture`] analyzes it and makes [`rows`] of the tables of [`schema`]. [`parquet`] writes
//! them to files for any engine, [`part`] passes them on between collectors. A collector adds them up instead: [`sums`] defines the sums, [`database`] keeps them (SQLite).
//! [`report`] makes reports of the answers to [`queries`] over the sums. [`change`] tells what a version changed: it compares two versions,
//! guards a rollout, and finds the version of a change. A [`ledger`] is what a device counts of every frame, without captures.

#![deny(unsafe_code)]

/// Benches have some of the tests' modules, too.
#[cfg(test)]
extern crate self as tracetee_fleet;

pub mod capture;
pub mod change;
pub mod database;
mod error;
pub mod ledger;
pub mod object_keys;
#[cfg_attr(not(feature = "parquet"), path = "no_parquet.rs")]
pub mod parquet;
pub mod part;
pub mod queries;
pub mod report;
pub mod rows;
pub mod schema;
pub mod selection;
pub mod significance;
pub mod stored_report;
pub mod sums;
mod table;
#[cfg(test)]
mod versions_tests;

pub use error::Error;
