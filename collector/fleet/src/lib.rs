//! Tables of a fleet's captures, queries over them, and reports.
//!
//! The journey of a capture: [`capture`] analyzes it and makes [`rows`] of the five tables of [`schema`]. [`parquet`] writes
//! them to files for any engine, [`part`] passes them on between collectors. A collector adds them up instead: [`sums`] defines the sums, [`database`] keeps them (SQLite).
//! [`report`] makes reports of the answers to [`queries`] over the sums. [`compare`] compares two versions on devices that are alike,
//! and [`significance`] tests whether they differ by more than chance. [`guard`] watches the rollout of a version, and [`bisect`]
//! finds the version of a change.

#![deny(unsafe_code)]

/// Benches have some of the tests' modules, too.
#[cfg(test)]
extern crate self as tracetee_fleet;

pub mod bisect;
pub mod capture;
pub mod compare;
pub mod database;
mod error;
pub mod guard;
pub mod object_keys;
pub mod parquet;
pub mod part;
pub mod queries;
pub mod report;
pub mod rows;
pub mod schema;
pub mod selection;
pub mod significance;
pub mod sums;
mod table;

pub use error::Error;
