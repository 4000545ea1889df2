//! A fleet's captures as tables, and what they tell.
//!
//! The journey of a capture: [`capture`] analyses it and makes [`rows`] of the five tables of
//! [`schema`]; they go into [`database`] (SQLite, on one machine) or into [`parquet`] (Parquet, on an
//! object store, for any engine). [`sql`] is one set of queries over them for all engines; [`report`]
//! makes reports of what they answer, and [`significance`] says what of two versions' difference is no
//! chance.

#![forbid(unsafe_code)]

pub mod capture;
pub mod database;
mod error;
pub mod object_keys;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod report;
pub mod rows;
pub mod schema;
pub mod significance;
pub mod simulate;
pub mod sql;
mod table;

pub use error::Error;
