//! The thresholds for a change. `tests/fleet/worlds` has a knob that tests each assumption behind them.

/// Probability of a false alarm: of a comparison as a whole, of all checks of a guard together, of a search of versions.
/// Half of the documented 1 %, because the errors are estimates.
pub const LEVEL: f64 = 0.005;
/// Minimum number of devices that updated, and of controls, for a verdict.
pub const LEAST_DEVICES: u64 = 30;
/// Minimum number of devices with time of a cause, updated or not, for a test of the cause.
pub const LEAST_DEVICES_WITH: u64 = 20;
/// Minimum change for a verdict, as a share of the earlier value.
pub const LEAST_CHANGE: f64 = 0.02;
/// Rise of all jank that "same" excludes, as a share of the earlier value. A guard can be given another one.
pub const SAME_BELOW: f64 = 0.10;
/// Probability of finding the rise for which a guard says go.
pub const POWER: f64 = 0.9;
/// Sizes of a change for which a guard searches, as logarithms: small ones in large fleets, and large ones in small fleets.
/// The guard's significance level holds for any choice of sizes.
pub const GUARD_SIZES: [f64; 2] = [0.1, 0.4];
/// Share of the later version's frames or jank on screens that only it has, from which on nothing is known about the whole.
pub const LEAST_UNKNOWN: f64 = 0.05;
/// Frames of a day at which chance and the day itself move a value as much: a day's weight grows with its frames up to there.
pub const USUAL_FRAMES: f64 = 300.0;
/// Share of a usual value that is added to each: a value of 0 has a logarithm, too.
pub const FLOOR: f64 = 0.25;
/// Number of deaths that is added to the value of each device-day, so that deaths of different devices add up, and many of one
/// device count little more than one.
pub const FLOOR_DEATHS: f64 = 2.0;
/// Minimum number of devices of a kind; smaller kinds share one with the next.
pub const LEAST_ALIKE: usize = 30;
/// Days before the release that count.
pub const DAYS_BEFORE: u32 = 28;
/// One in this many devices of the later version has it before its release: its clock is wrong, or it tests the version.
pub const EARLY_IN: usize = 100;
/// Maximum number of devices that are compared; of more, a sample is.
pub const MOST_DEVICES: usize = 100_000;
