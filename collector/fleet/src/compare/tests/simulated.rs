//! Simulated sums of devices, without traces: for tests of statistics, which need millions of devices.
//!
//! Devices of a class have its speed and its rate of causes, each device with its own factors, which are the same under
//! both versions. The number of late frames of a cause is Poisson's, their times vary from half to one and a half of the mean.

use fastrand::Rng;
use tracetee_fleet::compare::{Collected, Side, Traits};
use tracetee_fleet::schema::Text;

/// A cause: name, late frames in ten thousand, mean time in ms.
type Cause = (&'static str, f64, f64);

/// Screens, and the causes on them.
const SCREENS: [(&str, &[Cause]); 3] = [
    ("Feed", &[("inflate", 300.0, 90.0), ("Feed.bind", 150.0, 60.0), ("gc", 30.0, 70.0)]),
    ("Detail", &[("lock", 120.0, 80.0), ("gc", 30.0, 70.0), ("Icons.read", 60.0, 50.0)]),
    ("Settings", &[("binder", 100.0, 60.0), ("Prices.load", 80.0, 60.0), ("gc", 30.0, 70.0)]),
];
/// Time of a period at 60 Hz, ms.
const PERIOD_MS: f64 = 1000.0 / 60.0;
/// Time of a quick frame on a usual device, ms: the causes take their mean times there.
const USUAL_MS: f64 = 3.0;

/// A class of devices.
#[derive(Debug, Clone, Copy)]
pub(super) struct Class {
    /// Time of a quick frame, ms.
    pub(super) quick_ms: f64,
    /// Factor of the rates of causes.
    pub(super) causes: f64,
}

/// A change of a cause on a screen by the later version.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    /// Screen.
    pub(super) screen: &'static str,
    /// Cause.
    pub(super) cause: &'static str,
    /// Factor of its time.
    pub(super) factor: f64,
}

/// A simulated fleet.
#[derive(Debug, Clone, Default)]
pub(super) struct Fleet {
    /// Classes; a model is named after its class.
    pub(super) classes: Vec<Class>,
    /// Frames of a device on each screen, under each version.
    pub(super) frames: u64,
    /// Spread of the devices' rates of causes: standard deviation of the logarithm.
    pub(super) spread: f64,
    /// The change by the later version.
    pub(super) change: Option<Change>,
}

/// A device.
#[derive(Debug, Clone)]
pub(super) struct Device {
    name: String,
    traits: Traits,
    /// Factor of all times.
    slowness: f64,
    /// Factor of the rates of causes.
    causes: f64,
}

fn normal(rng: &mut Rng) -> f64 {
    // The sum of twelve has the variance 1.
    (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0
}

/// Draws a count; the mean is at most some hundreds.
fn poisson(rng: &mut Rng, mean: f64) -> u64 {
    let (limit, mut product, mut count) = ((-mean).exp(), rng.f64(), 0);
    while product > limit {
        product *= rng.f64();
        count += 1;
    }
    count
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times and rates are small and above 0"
)]
fn ns(ms: f64) -> u64 {
    (ms * 1e6) as u64
}

impl Fleet {
    /// Draws a device of a class, by its place in `classes`; `speed` is a factor of its times beside those of its model.
    pub(super) fn device(&self, rng: &mut Rng, number: u64, class: usize, speed: f64) -> Device {
        let of =
            self.classes.get(class).copied().unwrap_or(Class { quick_ms: USUAL_MS, causes: 1.0 });
        let quick_ms = of.quick_ms * speed * (0.1 * normal(rng)).exp();
        let traits = Traits {
            model: Text::from(format!("model {} of class {class}", rng.u8(0..4))),
            api: 33 + rng.u64(0..2),
            hz: 60,
            quick_ns: ns(quick_ms),
            is_test: false,
        };
        let causes = of.causes * (self.spread * normal(rng)).exp();
        Device { name: format!("{number:032x}"), traits, slowness: quick_ms / USUAL_MS, causes }
    }

    /// Adds what a device sends under a version.
    pub(super) fn send(&self, rng: &mut Rng, device: &Device, side: Side, to: &mut Collected) {
        to.device(side, &device.name, device.traits.clone());
        for (screen, causes) in SCREENS {
            let mut jank_ms = 0.0;
            for &(cause, in_10000, mean_ms) in causes {
                let change = self
                    .change
                    .filter(|of| side == Side::To && (of.screen, of.cause) == (screen, cause));
                let factor = change.map_or(1.0, |of| of.factor) * device.slowness;
                #[allow(clippy::cast_precision_loss, reason = "some hundreds")]
                let mean = in_10000 / 1e4 * self.frames as f64 * device.causes;
                let mut cause_ms = 0.0;
                for _ in 0..poisson(rng, mean.min(300.0)) {
                    let ms = mean_ms * factor * (0.5 + rng.f64());
                    cause_ms += ms;
                    jank_ms += (ms + device.slowness * USUAL_MS - PERIOD_MS).max(0.0);
                }
                if cause_ms > 0.0 {
                    to.cause(screen, cause, cause, ns(cause_ms));
                }
            }
            to.frames(screen, self.frames, ns(jank_ms));
        }
    }
}
