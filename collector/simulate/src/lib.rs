//! Simulated fleets, for tests of comparisons: what moves jank besides an app's code.

mod world;

pub use world::{DateEffect, Moment, World};
