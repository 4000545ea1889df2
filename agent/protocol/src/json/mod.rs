//! A small JSON reader and writer.
//!
//! Reading: [`Tree::parse`] checks the whole text and keeps one entry of 16 bytes for each value;
//! [`Value`] walks the entries. Texts are unescaped and numbers converted when they are requested.
//! Every error names the byte, line, column and JSON path.
//!
//! ```
//! use tracetee_protocol::json::{Limits, Tree, Writer};
//!
//! let tree = Tree::parse(br#"{"jobs": [{"id": 7}]}"#, Limits::DEFAULT)?;
//! let jobs = tree.root().get("jobs").ok_or("no jobs")?;
//! for job in jobs.items() {
//!     let id = job.get("id").and_then(|id| id.u64());
//!     assert_eq!(id, Some(7));
//!     assert_eq!(job.error("is late").to_string(), "jobs[0]: is late (line 1, column 11)");
//! }
//!
//! let mut out = Writer::new();
//! out.begin_object();
//! out.key("id").u64(7);
//! out.key("tags").begin_array();
//! out.text("a").text("b\n");
//! out.end_array().end_object();
//! assert_eq!(out.finish(), r#"{"id":7,"tags":["a","b\n"]}"#);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod decimal;
mod error;
mod float;
mod number;
mod parse;
mod value;
mod write;

#[cfg(test)]
mod tests;

pub use decimal::Decimal;
pub use error::{Error, Position};
pub use float::f64_text;
pub use parse::{Limits, Tree};
pub use value::{Items, Kind, Members, Value};
pub(crate) use write::push_u64;
pub use write::{Writer, quoted};
