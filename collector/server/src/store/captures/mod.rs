//! The captures of a directory: their names, days and ids; validation and storage; quarantine; and retention.

pub(crate) mod arrived;
pub(crate) mod days;
pub(crate) mod entries;
pub(crate) mod id_index;
pub(crate) mod local_store;
pub(crate) mod profiles;
pub(crate) mod quarantined;
pub(crate) mod retention;
pub(crate) mod validate;
