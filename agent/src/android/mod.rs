//! What the agent asks of the Android system it runs on: properties, the loader, Perfetto.

pub(crate) mod perfetto;
pub(crate) mod pinned;
pub(crate) mod properties;
