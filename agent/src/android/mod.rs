//! The Android system that the agent runs on: properties, quirks of releases, the loader, Perfetto.

pub(crate) mod perfetto;
pub(crate) mod pinned;
pub(crate) mod properties;
pub(crate) mod quirks;
pub(crate) mod system_trace;
