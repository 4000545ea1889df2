//! Tables of a fleet's captures, queries over them, and reports.
//!
//! The journey of a capture: [`capture`] analyzes it and makes [`rows`] of the five tables of [`schema`]; they go into
//! [`database`] (SQLite, on one machine) or into [`parquet`] (Parquet, on an object store, for any engine), together with what they
//! add to the sums of [`rollup`]. [`sql`] is one set of queries for all engines; [`report`] makes reports of the answers, and [`significance`] tests whether two
//! versions differ by more than chance.

#![deny(unsafe_code)]

pub mod capture;
pub mod database;
mod error;
pub mod object_keys;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod report;
pub mod rollup;
pub mod rows;
pub mod schema;
pub mod significance;
pub mod simulate;
pub mod sql;
mod table;

pub use error::Error;
