//! Rollouts in simulated worlds, as the sums that a collector would have: rows of devices, versions and days, without captures.
//!
//! [`Scenario`] is a world with what else a rollout needs; [`scenarios()`] lists those that a statistic is judged by. A rollout
//! depends on its scenario and a seed alone, and takes some tens of milliseconds. The example `rollouts` runs a guard and a
//! comparison over many of them; its file `adapter.rs` is the one that knows the statistic.

mod device;
mod rollout;
mod scenarios;
#[cfg(test)]
mod tests;

pub use device::Device;
pub use rollout::{DEATHS, Rollout, Row, Series, Time, Truth, Visit};
pub use scenarios::{Expected, Scenario, scenarios};
pub use tracetee_simulate::{DateEffect, World};

/// The first two versions; each release is one more.
pub const VERSIONS: [&str; 2] = ["2.0", "2.1"];
/// Day of the first captures, counted from the release.
pub const FIRST_DAY: i64 = -7;
/// Days between two releases.
pub const RELEASE_DAYS: i64 = 7;
/// Milliseconds of a day.
pub(crate) const DAY_MS: i64 = 86_400_000;
/// Unix time of the release: Monday, 2026-09-07.
pub(crate) const RELEASE_MS: i64 = 20_703 * DAY_MS;
