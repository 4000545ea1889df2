//! Number of devices after which a rise of a stated size would have been found.
//!
//! With the best bet the logarithm of the wealth grows by `r²/2` a device, with a standard deviation of `r`, where r is the
//! rise divided by the root mean square of the differences. Bets that are learned win less: by a start, and by half a logarithm of
//! the number of devices.

/// Probability with which a rise would have been found.
pub const POWER: f64 = 0.9;
/// The quantile of the normal distribution for [`POWER`].
const QUANTILE: f64 = 1.2816;
/// Logarithm of the wealth that the first, careful bets do not win.
const START: f64 = 1.0;

/// Returns the number of devices. `rise` is the mean difference, `square` the mean square of differences, `log_needed` the
/// logarithm of the wealth at which the hypothesis is rejected. `None` if no number is enough.
#[must_use]
pub fn devices_needed(rise: f64, square: f64, log_needed: f64) -> Option<u64> {
    let ratio = rise / (square + rise * rise).sqrt();
    if !(ratio > 0.0 && log_needed > 0.0) {
        return None;
    }
    let mut count = 1.0_f64;
    // It settles: the logarithm grows slowly.
    for _ in 0..20 {
        let needed = log_needed + START + count.ln() / 2.0;
        let root = QUANTILE + (QUANTILE * QUANTILE + 2.0 * needed).sqrt();
        count = (root / ratio).powi(2).max(1.0);
    }
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number of devices, limited"
    )]
    let count = count.ceil().min(1e15) as u64;
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::super::wealth::Wealth;
    use super::*;
    use fastrand::Rng;

    /// Differences of a kind: their root mean square is about 1.
    type Noise = fn(&mut Rng) -> f64;

    const NOISES: [Noise; 3] = [
        |rng| (rng.f64() - 0.5) * 12.0_f64.sqrt(),
        // Most devices do not have it.
        |rng| if rng.u8(..) < 26 { (rng.f64() - 0.5) * 120.0_f64.sqrt() } else { 0.0 },
        // Few devices have very much of it.
        |rng| ((rng.f64() * 5.0).exp() / 46.0) * if rng.bool() { 1.0 } else { -1.0 },
    ];

    #[test]
    fn the_stated_number_of_devices_finds_the_stated_rise() {
        let needed = (1000.0_f64 / 0.01).ln();
        let mut all = 0;
        for (kind, noise) in NOISES.into_iter().enumerate() {
            let mut rng = Rng::with_seed(3);
            let square = (0..20_000).map(|_| noise(&mut rng).powi(2)).sum::<f64>() / 20_000.0;
            let rise = 0.2 * square.sqrt();
            let devices = devices_needed(rise, square, needed).unwrap();
            let mut found = 0;
            for _ in 0..400 {
                let mut wealth = Wealth::default();
                found += i32::from((0..devices).any(|_| {
                    wealth.take(noise(&mut rng) + rise);
                    wealth.log >= needed
                }));
            }
            println!("noise {kind}: {found} of 400 found with {devices} devices");
            assert!(found >= 352, "noise {kind}: {found} of 400 with {devices}");
            all += found;
        }
        // Nor are many more devices asked for than it takes.
        assert!(all < 1194, "{all} of 1200");
    }

    #[test]
    fn no_number_of_devices_shows_a_rise_of_nothing() {
        assert_eq!(devices_needed(0.0, 1.0, 9.0), None);
        assert_eq!(devices_needed(f64::NAN, 1.0, 9.0), None);
        assert!(devices_needed(1e-9, 1.0, 9.0).is_some());
        assert!(devices_needed(0.1, 1.0, 9.0) > devices_needed(0.2, 1.0, 9.0));
    }
}
