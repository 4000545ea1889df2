//! Structs and enums that are declared with their JSON.
//!
//! [`record!`](crate::record!) declares a struct by a table: name, type, default, limits,
//! description of each field. From it come the struct, its `Default`, the reader, the writer and the
//! check of the limits; in this crate's tests, the JSON schema, too. [`words!`](crate::words!) declares
//! an enum that is one of several texts, [`choice!`](crate::choice!) one whose values may have fields of
//! their own.
//!
//! ```
//! use tracetee_protocol::{json::Limits, record, record::{check, parse, to_json}, words};
//!
//! words! {
//!     /// The colour of a lamp. The first one is the default.
//!     pub enum Colour {
//!         /// As the sky.
//!         Blue = "blue",
//!         /// As a fire engine.
//!         Red = "red",
//!     }
//! }
//! record! {
//!     /// A lamp.
//!     pub struct Lamp {
//!         /// The brightness, percent.
//!         pub brightness: u32 = 50; within(0..=100),
//!         /// The colour.
//!         pub colour: Colour = Colour::Red,
//!         /// Where the lamp stands; the JSON leaves out what is not known.
//!         pub place["where"]: Option<String> = None; omit(Option::is_none),
//!     }
//! }
//!
//! let lamp: Lamp = parse(br#"{"brightness": 70}"#, Limits::DEFAULT)?;
//! assert_eq!(lamp, Lamp { brightness: 70, ..Lamp::default() });
//! assert_eq!(to_json(&lamp), r#"{"brightness":70,"colour":"red"}"#);
//! let error = check(&Lamp { brightness: 101, ..lamp }).unwrap_err();
//! assert_eq!(error.to_string(), "brightness: 101 is not from 0 to 100");
//! let error = parse::<Lamp>(br#"{"colour": "rot"}"#, Limits::DEFAULT).unwrap_err();
//! assert!(error.to_string().starts_with(r#"colour: must be one of blue, red, not "rot""#));
//! # Ok::<(), tracetee_protocol::json::Error>(())
//! ```
//!
//! Fields that are missing have their default; unknown ones are ignored, and named by
//! [`Tree::unknown`]; a field that is there twice is an error. A limit is one of
//! - `within(RANGE)`: a number, or each number of an option, is in it;
//! - `count(RANGE)`: a list has that many entries;
//! - `check(FUNCTION)`: `fn(&T) -> Result<(), String>`, which gives the reason.
//!
//! `required()` makes it an error when the field is missing in a document that is read.
//! `omit(FUNCTION)`, `fn(&T) -> bool`, leaves a field out of the JSON.

mod limits;
mod macros;
mod maps;
mod types;

#[cfg(test)]
pub(crate) mod schema_tests;
#[cfg(test)]
mod tests;

pub use limits::{Path, Ranged, check_count, check_with};
pub(crate) use macros::writes;
pub use macros::{choice_of, read_fields, read_word, word};
pub use maps::Key;
pub use types::RawJson;

use crate::json::{Error, Limits, Tree, Value, Writer};

/// A type with one JSON form.
pub trait Json {
    /// The type has limits that [`Json::check`] looks at.
    const HAS_LIMITS: bool = false;

    /// Takes the value of `value`. After an error `self` is not to be used.
    ///
    /// # Errors
    /// [`Error`] with the path of the field that has another type.
    fn read(&mut self, value: Value<'_>) -> Result<(), Error>;

    /// Writes it.
    fn write(&self, out: &mut Writer);

    /// Checks the limits of this value, which is at `path`, and of all in it.
    ///
    /// # Errors
    /// [`Error`] with the field and the limit.
    fn check(&self, path: &mut Path) -> Result<(), Error> {
        let _ = path;
        Ok(())
    }
}

/// A struct as [`read_fields`] sees it: what [`record!`](crate::record!) implements.
pub trait Record {
    /// The names of the fields in the JSON, each with a space after it.
    fn names(&self) -> &'static str;

    /// The fields that must be there, as bits by number.
    fn required(&self) -> u128;

    /// Reads the field of that number, counted as in [`Record::names`].
    ///
    /// # Errors
    /// As [`Json::read`].
    fn read_field(&mut self, number: usize, value: Value<'_>) -> Result<(), Error>;
}

/// Reads a document. Limits of its values are for [`check`].
///
/// # Errors
/// [`Error`] where the text is not JSON within `limits`, or a field has another type.
pub fn parse<T: Json + Default>(bytes: &[u8], limits: Limits) -> Result<T, Error> {
    let tree = Tree::parse(bytes, limits)?;
    read(tree.root())
}

/// Reads a value.
///
/// # Errors
/// [`Error`] with the path of the field that has another type.
pub fn read<T: Json + Default>(value: Value<'_>) -> Result<T, Error> {
    let mut read = T::default();
    read.read(value)?;
    Ok(read)
}

/// Checks all limits.
///
/// # Errors
/// [`Error`] with the field and the limit.
pub fn check(value: &impl Json) -> Result<(), Error> {
    value.check(&mut Path::default())
}

/// The JSON of a value.
pub fn to_json(value: &impl Json) -> String {
    let mut out = Writer::new();
    value.write(&mut out);
    out.finish()
}
