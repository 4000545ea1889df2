//! Collectors that share an object store: each has a [`replica`] of its tables, and takes [`parts`] that others have made.

mod guards;
pub(crate) mod mappings;
pub(crate) mod parts;
pub(crate) mod reader;
pub(crate) mod replica;
