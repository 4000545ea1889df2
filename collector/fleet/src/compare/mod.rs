//! Fair comparisons of two versions: like is compared with like.
//!
//! [`Collected`] takes the sums of each device under each version ([`crate::database::Database::observations`] reads them).
//! [`Observations`] arranges them: a device that sent both versions is its own control (a *pair*); the others are compared in
//! *strata* of devices that are alike ([`classes`]). [`estimate`] makes a difference, its error and a p-value of the
//! observations of a cause. The report of a comparison ([`crate::report::comparison`]) and the guard of a rollout read them.

mod arrange;
pub mod bounds;
pub mod classes;
pub mod collected;
pub mod estimate;
mod guarded;
pub mod observations;

#[cfg(test)]
mod tests;

pub use collected::{Collected, Rules, Side, Traits};
pub use observations::{CauseName, Observations, Pair, Screen, Stratum, StratumKey, StratumValues};
