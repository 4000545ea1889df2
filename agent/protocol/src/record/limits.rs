//! The check of limits: where in a document it is, and the sentences of its errors.

use crate::json::{Decimal, Error};
use std::fmt::Display;
use std::ops::RangeInclusive;

/// The path of the value that is being checked: `windows[2].max_s`.
#[derive(Debug, Default)]
pub struct Path(String);

impl Path {
    /// Enters a field; the returned value leaves it again.
    pub fn enter(&mut self, field: &str) -> usize {
        let parent = self.0.len();
        if parent > 0 {
            self.0.push('.');
        }
        self.0.push_str(field);
        parent
    }

    /// Goes to an entry of a list.
    pub fn enter_index(&mut self, index: usize) -> usize {
        let parent = self.0.len();
        self.0.push('[');
        crate::json::push_u64(&mut self.0, index as u64);
        self.0.push(']');
        parent
    }

    /// Returns to the field in which [`Path::enter`] was called.
    #[inline(never)]
    pub fn leave(&mut self, parent: usize) {
        self.0.truncate(parent);
    }

    /// An error about the value here.
    #[must_use]
    pub fn error(&self, reason: impl Into<String>) -> Error {
        Error::new(self.0.clone(), reason)
    }
}

/// A type whose values can be limited to a range of `T`.
pub trait Ranged<T> {
    /// Checks that.
    ///
    /// # Errors
    /// [`Error`] with the range.
    fn check_range(&self, range: &RangeInclusive<T>, path: &Path) -> Result<(), Error>;
}

macro_rules! ranged {
    ($($type:ty),*) => {$(
        #[doc(hidden)]
        impl Ranged<Self> for $type {
            fn check_range(&self, range: &RangeInclusive<Self>, path: &Path) -> Result<(), Error> {
                if range.contains(self) {
                    return Ok(());
                }
                Err(outside(self, range.start(), range.end(), path))
            }
        }
    )*};
}

ranged!(u32, u64, usize, Decimal);

impl<T: Ranged<T>> Ranged<T> for Option<T> {
    fn check_range(&self, range: &RangeInclusive<T>, path: &Path) -> Result<(), Error> {
        self.as_ref().map_or(Ok(()), |value| value.check_range(range, path))
    }
}

#[cold]
fn outside(value: &dyn Display, from: &dyn Display, to: &dyn Display, path: &Path) -> Error {
    path.error(format!("{value} is not from {from} to {to}"))
}

/// Checks how many entries a list has.
///
/// # Errors
/// [`Error`] with the range.
pub fn check_count(count: usize, range: &RangeInclusive<usize>, path: &Path) -> Result<(), Error> {
    if range.contains(&count) {
        return Ok(());
    }
    let (from, to) = (range.start(), range.end());
    Err(path.error(format!("has {count} entries, must have from {from} to {to}")))
}

/// Makes an error from the reason that its own check returns.
///
/// # Errors
/// [`Error`] with that reason.
pub fn check_with(checked: Result<(), String>, path: &Path) -> Result<(), Error> {
    checked.map_err(|reason| path.error(reason))
}
