//! Decides when captures are sent and when they are given up; has every limit with its reason.
//!
//! Pure functions, called by [`crate::uploader`].

use crate::network::{NetState, Network};
use crate::transport::Response;
use std::time::Duration;
use tracetee_protocol::http;

/// Upper limit of the first back-off. A shorter one would only drain the battery: a request that failed a
/// second ago fails again.
pub const FIRST_BACKOFF: Duration = Duration::from_secs(30);
/// Lower limit of any back-off, which a restart of the app does not shorten.
pub const LEAST_BACKOFF: Duration = Duration::from_secs(1);
/// Upper limit of any back-off, so that a phone that is on only at night does not miss the night.
pub const MAX_BACKOFF: Duration = Duration::from_secs(6 * 3600);
/// Upper limit of `Retry-After`. A server that asks for a year has a bug, which would silence the fleet.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 3600);
/// Number of failures after which a capture is given up. With the back-off above, a failing server has half a
/// day to recover. A missing network does not count.
pub const MAX_TRIES: u32 = 12;
/// Battery charge in percent below which nothing is sent, unless the device charges.
pub const BATTERY_FLOOR: u8 = 10;
/// Default limit of bytes a day: a few captures.
pub const BYTES_PER_DAY: u64 = 20_000_000;
/// Time limit of a request without its body: to connect and to receive the answer.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Slowest acceptable rate for a body: a bad 2G network.
pub const SLOWEST_BYTES_PER_S: u64 = 4_000;
/// Size limit of an answer, except for a configuration.
pub const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// Default interval between requests for the configuration.
pub const POLL: Duration = Duration::from_secs(3600);
/// Least interval after a request for the configuration that got no answer: two idle passes.
pub const POLL_AGAIN: Duration = Duration::from_secs(120);

/// The result of an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The server has the capture.
    Delivered,
    /// The server may accept the capture later.
    Retry {
        /// True if the failure may be the capture's fault and counts towards [`MAX_TRIES`].
        counts: bool,
        /// The delay that the server requests.
        after: Option<Duration>,
        /// The human-readable reason.
        why: String,
    },
    /// The server will never accept the capture. Holds the reason, for the loss report.
    Discard(String),
}

/// Returns the meaning of an answer.
#[must_use]
pub fn classify(response: &Response) -> Outcome {
    let status = response.status;
    let after = response.header(http::RETRY_AFTER).and_then(retry_after);
    let retry = |counts: bool, why: &str| Outcome::Retry {
        counts,
        after,
        why: format!("the server answered {status}{why}"),
    };
    match status {
        // An unexpected HTML page: a captive portal answers for the server.
        200..=299 | 409 | 412 if is_page(response) => retry(false, " with a page: a log-in page?"),
        200 | 201 | 202 | 204 => Outcome::Delivered,
        // The server already has it: an earlier answer was lost.
        409 | 412 => Outcome::Delivered,
        // Never expected: redirects are not followed, because they would send the token elsewhere.
        100..=199 | 203 | 205..=299 | 300..=399 => {
            retry(false, ", which is not a valid answer to an upload")
        }
        // An error that is repaired at the server or in the app; the captures are valid.
        401 | 403 | 404 | 407 => retry(false, ": the address or the token is wrong"),
        408 | 425 => retry(true, ""),
        // The server is overloaded, which does not depend on this capture.
        429 | 503 => retry(false, ""),
        400..=499 => Outcome::Discard(format!("status_{status}")),
        _ => retry(true, ""),
    }
}

fn is_page(response: &Response) -> bool {
    response.header("content-type").is_some_and(|kind| kind.starts_with("text/html"))
}

/// Parses the seconds of `Retry-After`. At most [`MAX_RETRY_AFTER`]; `None` for its other form, a date, which a device's
/// clock cannot be compared with: it may be wrong by days.
#[must_use]
pub fn retry_after(text: &str) -> Option<Duration> {
    let text = text.trim();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // Too many digits: too long anyway.
    let asked = || text.parse().map_or(MAX_RETRY_AFTER, Duration::from_secs);
    is_number.then(|| asked().min(MAX_RETRY_AFTER))
}

/// Returns the back-off after this many failures in a row: random, up to a limit that doubles ("full
/// jitter"), so that devices that failed together do not retry together.
#[must_use]
pub fn backoff(failures: u32, random: u64) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let most = FIRST_BACKOFF.saturating_mul(1 << doublings).min(MAX_BACKOFF);
    let most_ms = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(random % most_ms.max(1) + 1).max(LEAST_BACKOFF)
}

/// Returns the delay after a failure: the server's, or our own back-off if that is longer.
#[must_use]
pub fn wait(failures: u32, after: Option<Duration>, random: u64) -> Duration {
    backoff(failures, random).max(after.unwrap_or_default())
}

/// Returns the time limit of a request with a body of this size.
#[must_use]
pub fn timeout(body_bytes: u64) -> Duration {
    REQUEST_TIMEOUT + Duration::from_secs(body_bytes / SLOWEST_BYTES_PER_S)
}

/// Rules of the remote configuration for uploads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Networks that uploads may use.
    pub network: Allowed,
    /// True to send only while the device charges.
    pub charging: bool,
    /// Bytes per 24 h over unmetered networks.
    pub bytes_per_day: u64,
    /// Bytes per 24 h over metered networks.
    pub metered_bytes_per_day: u64,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            network: Allowed::Unmetered,
            charging: false,
            bytes_per_day: BYTES_PER_DAY,
            metered_bytes_per_day: 0,
        }
    }
}

/// Networks that uploads may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowed {
    /// Unmetered networks.
    Unmetered,
    /// All networks.
    Any,
    /// No network: captures stay on the device.
    Never,
}

/// Bytes sent in the current 24 hours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Bytes over unmetered networks.
    pub unmetered: u64,
    /// Bytes over metered networks.
    pub metered: u64,
}

/// Returns the reason why a capture of this size may not be sent now; `None` if it may.
#[must_use]
pub fn refuses(rules: &Rules, net: &NetState, spent: Spent, bytes: u64) -> Option<String> {
    if rules.network == Allowed::Never {
        return Some("the configuration allows no upload".to_owned());
    }
    if let Some(why) = device_refuses(net) {
        return Some(why.to_owned());
    }
    if rules.charging && !net.charging {
        return Some("waiting for the charger".to_owned());
    }
    let (spent, limit) = match net.network {
        Network::Metered if rules.network == Allowed::Unmetered => {
            return Some("waiting for an unmetered network".to_owned());
        }
        Network::Metered => (spent.metered, rules.metered_bytes_per_day),
        Network::Unmetered | Network::None => (spent.unmetered, rules.bytes_per_day),
    };
    // A capture above the limit would wait forever: it may be the day's only one, unless the limit protects the user's bill.
    let is_first = spent == 0 && net.network == Network::Unmetered && limit > 0;
    if spent.saturating_add(bytes) > limit && !is_first {
        return Some(format!(
            "{spent} of the day's {limit} bytes are sent; this capture has {bytes}"
        ));
    }
    None
}

/// Returns the reason why no request may be sent now; `None` if requests may.
#[must_use]
pub fn device_refuses(net: &NetState) -> Option<&'static str> {
    if net.network == Network::None {
        return Some("there is no network");
    }
    if net.roaming {
        return Some("the device is roaming");
    }
    if net.power_save {
        return Some("the device saves power");
    }
    if !net.charging && net.battery_percent.is_some_and(|percent| percent < BATTERY_FLOOR) {
        return Some("the battery is low");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, headers: &[(&str, &str)]) -> Response {
        let headers = headers.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        Response { status, headers: headers.collect(), body: Vec::new() }
    }

    fn outcome(status: u16) -> Outcome {
        classify(&answer(status, &[]))
    }

    #[test]
    fn every_status_is_of_one_class() {
        for status in 100..=999 {
            let expected = match status {
                200 | 201 | 202 | 204 | 409 | 412 => "delivered",
                408 | 425 | 500..=502 | 504..=999 => "counts",
                429 | 503 | 401 | 403 | 404 | 407 | 100..=399 => "retry",
                _ => "discard",
            };
            let found = match outcome(status) {
                Outcome::Delivered => "delivered",
                Outcome::Retry { counts: true, .. } => "counts",
                Outcome::Retry { counts: false, .. } => "retry",
                Outcome::Discard(reason) => {
                    assert_eq!(reason, format!("status_{status}"));
                    "discard"
                }
            };
            assert_eq!(found, expected, "{status}");
        }
    }

    #[test]
    fn a_log_in_page_is_no_delivery() {
        for status in [200, 201, 412] {
            let page = answer(status, &[("Content-Type", "text/html; charset=utf-8")]);
            let found = classify(&page);
            assert!(matches!(found, Outcome::Retry { counts: false, .. }), "{status}: {found:?}");
        }
    }

    #[test]
    fn retry_after_is_seconds_and_a_day_at_most() {
        let seconds = |text| retry_after(text).map(|wait| wait.as_secs());
        assert_eq!(seconds("120"), Some(120));
        assert_eq!(seconds(" 0 "), Some(0));
        assert_eq!(seconds("86401"), Some(86_400));
        assert_eq!(seconds("99999999999999999999999999"), Some(86_400));
        for wrong in ["", "-1", "1.5", "soon", "Fri, 06 Nov 2054 08:48:37 GMT"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
        let asked = classify(&answer(503, &[("Retry-After", "90")]));
        assert!(
            matches!(asked, Outcome::Retry { after: Some(wait), .. } if wait.as_secs() == 90),
            "{asked:?}"
        );
    }

    #[test]
    fn waits_are_spread_over_a_limit_that_doubles_from_30_s_to_6_h() {
        for (failures, most_s) in [(1, 30), (2, 60), (3, 120), (9, 7_680), (10, 15_360)] {
            assert_eq!(backoff(failures, most_s * 1000 - 1), Duration::from_secs(most_s));
            assert_eq!(backoff(failures, most_s * 1000), LEAST_BACKOFF, "no more");
        }
        for failures in [11, 12, 100, u32::MAX] {
            assert_eq!(backoff(failures, 21_599_999), MAX_BACKOFF);
            assert_eq!(backoff(failures, 21_600_000), LEAST_BACKOFF);
        }
        assert_eq!(backoff(0, 29_999), FIRST_BACKOFF);
    }

    #[test]
    fn the_longer_of_what_the_server_asks_and_our_own_wait_holds() {
        assert_eq!(wait(1, Some(Duration::from_secs(90)), 29_999), Duration::from_secs(90));
        assert_eq!(wait(1, Some(Duration::from_secs(1)), 29_999), FIRST_BACKOFF);
        assert_eq!(wait(1, None, 29_999), FIRST_BACKOFF);
    }

    const WIFI: NetState = NetState {
        network: Network::Unmetered,
        roaming: false,
        charging: false,
        battery_percent: Some(80),
        power_save: false,
    };

    #[test]
    fn each_constraint_holds() {
        let (rules, none) = (Rules::default(), Spent::default());
        assert_eq!(refuses(&rules, &WIFI, none, 1000), None);
        let row = |rules: Rules, net: NetState, why: &str| {
            let found = refuses(&rules, &net, none, 1000).unwrap_or_default();
            assert!(found.contains(why), "{found:?}, not {why:?}");
        };
        row(rules, NetState { network: Network::None, ..WIFI }, "no network");
        row(rules, NetState { roaming: true, ..WIFI }, "roaming");
        row(rules, NetState { power_save: true, ..WIFI }, "saves power");
        row(rules, NetState { battery_percent: Some(9), ..WIFI }, "battery");
        row(rules, NetState { network: Network::Metered, ..WIFI }, "unmetered");
        row(Rules { charging: true, ..rules }, WIFI, "charger");
        row(Rules { network: Allowed::Never, ..rules }, WIFI, "no upload");
        let any = Rules { network: Allowed::Any, ..rules };
        row(any, NetState { network: Network::Metered, ..WIFI }, "0 of the day's 0 bytes");

        let allowed = [
            (rules, NetState { battery_percent: Some(9), charging: true, ..WIFI }),
            (rules, NetState { battery_percent: Some(10), ..WIFI }),
            (rules, NetState { battery_percent: None, ..WIFI }),
            (Rules { charging: true, ..rules }, NetState { charging: true, ..WIFI }),
            (
                Rules { metered_bytes_per_day: 1000, ..any },
                NetState { network: Network::Metered, ..WIFI },
            ),
        ];
        for (rules, net) in allowed {
            assert_eq!(refuses(&rules, &net, none, 1000), None, "{rules:?} {net:?}");
        }
    }

    #[test]
    fn a_days_bytes_are_not_exceeded_but_by_a_single_capture_that_never_could_go() {
        let rules = Rules {
            network: Allowed::Any,
            bytes_per_day: 5000,
            metered_bytes_per_day: 2000,
            ..Rules::default()
        };
        let metered = NetState { network: Network::Metered, ..WIFI };
        let may = |net: &NetState, unmetered, metered, bytes| {
            refuses(&rules, net, Spent { unmetered, metered }, bytes).is_none()
        };
        assert!(may(&WIFI, 4000, 0, 1000) && !may(&WIFI, 4001, 0, 1000));
        assert!(may(&metered, 5000, 1000, 1000) && !may(&metered, 0, 1001, 1000));
        assert!(may(&WIFI, 0, 0, 9000), "alone");
        assert!(!may(&WIFI, 1, 0, 9000));
        assert!(!may(&metered, 0, 0, 2001), "never where it costs");
    }

    #[test]
    fn a_large_body_has_the_time_that_a_bad_network_takes() {
        assert_eq!(timeout(0), REQUEST_TIMEOUT);
        assert_eq!(timeout(4_000_000), Duration::from_secs(60 + 1000));
    }
}
