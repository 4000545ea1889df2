//! Comparison of two versions: what became worse or better, with its significance.

use super::fleet::AppReport;
use crate::database::Answer;
use crate::error::Error;
use crate::significance::{LEAST_CHANGE, LEAST_DEVICES, LEVEL, Sample, adjust, p_value};
use serde::Serialize;
use std::collections::BTreeMap;

/// Comparison of two versions.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// The earlier version.
    pub from: String,
    /// The later version.
    pub to: String,
    /// Probability of a false alarm in the whole comparison.
    pub level: f64,
    /// Minimum number of devices of each version.
    pub least_devices: u64,
    /// Total jank first, then causes by p-value.
    pub rows: Vec<Compared>,
}

/// Comparison of total jank, or of one cause.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Compared {
    /// The cause; `None` for total jank.
    pub cause: Option<String>,
    /// Key of the cause.
    pub key: String,
    /// Devices of both versions.
    pub devices: [u64; 2],
    /// Milliseconds per thousand frames, mean over devices, of both versions.
    pub ms_in_1000: [f64; 2],
    /// p-value, adjusted for the number of comparisons.
    pub p: f64,
    /// The verdict.
    pub verdict: Verdict,
}

/// Verdict of a comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The later version has more of it.
    Worse,
    /// The later version has less of it.
    Better,
    /// No significant difference.
    #[default]
    Same,
    /// Too few devices for a verdict.
    TooFew,
}

/// Compares two versions of each app that has both.
pub(crate) fn compare(
    apps: &mut [AppReport],
    answer: &Answer,
    from: &str,
    to: &str,
) -> Result<(), Error> {
    let mut is_compared = false;
    for app in &mut *apps {
        let has = |ver: &str| app.versions.iter().any(|version| version.ver == ver);
        if !has(from) || !has(to) {
            continue;
        }
        is_compared = true;
        let mut samples: BTreeMap<(String, String), [Sample; 2]> = BTreeMap::new();
        let mut devices = [0, 0];
        for row in answer.iter().filter(|row| row.text("app") == app.app) {
            for (side, ver) in [from, to].into_iter().enumerate() {
                if row.text("ver") != ver {
                    continue;
                }
                let key = (row.text("cause"), row.text("cause_key"));
                let sample = Sample {
                    devices: row.count("devices"),
                    total: row.real("total").unwrap_or(0.0),
                    sum_of_squares: row.real("sum_of_squares").unwrap_or(0.0),
                };
                if let (Some(of), Some(all)) =
                    (samples.entry(key).or_default().get_mut(side), devices.get_mut(side))
                {
                    (*of, *all) = (sample, sample.devices);
                }
            }
        }
        app.comparison = Some(comparison(from, to, devices, samples));
    }
    if is_compared {
        return Ok(());
    }
    let known: Vec<&str> =
        apps.iter().flat_map(|app| &app.versions).map(|version| &*version.ver).collect();
    Err(Error::Missing(format!(
        "no app has both versions {from} and {to}; available: {}",
        known.join(", ")
    )))
}

/// Cause, key, and the samples of both versions.
type Samples = BTreeMap<(String, String), [Sample; 2]>;

fn comparison(from: &str, to: &str, devices: [u64; 2], samples: Samples) -> Comparison {
    let is_enough = devices.iter().all(|&count| count >= LEAST_DEVICES);
    let p_values: Vec<f64> = samples
        .values()
        .map(|&[a, b]| {
            // No device of a version has time of it: as many observations of zero.
            let whole = |sample: Sample, devices| Sample { devices, ..sample };
            p_value(whole(a, devices[0]), whole(b, devices[1]))
        })
        .collect();
    let adjusted = adjust(&p_values);
    let mut rows: Vec<Compared> = samples
        .into_iter()
        .zip(adjusted)
        .map(|(((cause, key), [a, b]), p)| {
            let mean = |sample: Sample, devices| Sample { devices, ..sample }.mean();
            let (was, is) = (mean(a, devices[0]), mean(b, devices[1]));
            let is_sure = p < LEVEL && (is - was).abs() > LEAST_CHANGE * was;
            let verdict = match (is_enough, is_sure, is > was) {
                (false, ..) => Verdict::TooFew,
                (true, false, _) => Verdict::Same,
                (true, true, true) => Verdict::Worse,
                (true, true, false) => Verdict::Better,
            };
            let cause = (!cause.is_empty()).then_some(cause);
            Compared { cause, key, devices, ms_in_1000: [was, is], p, verdict }
        })
        .collect();
    rows.sort_by(|a, b| {
        let difference = |row: &Compared| (row.ms_in_1000[1] - row.ms_in_1000[0]).abs();
        a.cause
            .is_some()
            .cmp(&b.cause.is_some())
            .then(a.p.total_cmp(&b.p))
            .then(difference(b).total_cmp(&difference(a)))
    });
    Comparison {
        from: from.to_owned(),
        to: to.to_owned(),
        level: LEVEL,
        least_devices: LEAST_DEVICES,
        rows,
    }
}
