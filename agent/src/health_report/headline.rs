//! The first line of the health report: why a capture was lost, why nothing is recorded now.

use tracetee_protocol::{ControlReport, LostReport};

/// Says why the last capture was lost, and why nothing is recorded now. `None` while all is well.
pub(crate) fn headline(report: &ControlReport, is_recording: bool) -> Option<String> {
    let lost = (report.captures_lost > 0).then(|| match &report.last_lost {
        Some(LostReport { window, why, reason }) => {
            let earlier = match report.captures_lost {
                1 => String::new(),
                count => format!(" ({count} in all)"),
            };
            format!("a capture was lost{earlier}: {window} ({why}): {reason}")
        }
        None => format!("{} captures were lost", report.captures_lost),
    });
    let off = (!is_recording).then(|| {
        let reason = &report.reason;
        match (&report.config, &report.config_refused) {
            (None, Some(refused)) => format!(
                "nothing is recorded now: {reason}; the one that was offered is refused: {refused}"
            ),
            _ => format!("nothing is recorded now: {reason}"),
        }
    });
    let parts: Vec<_> = lost.into_iter().chain(off).collect();
    let late = || report.late_start.as_ref().map(|late| late.reason.clone());
    let trouble = || report.trouble.clone().or_else(late);
    if parts.is_empty() { trouble() } else { Some(parts.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracetee_protocol::{ConfigReport, LateStartReport};

    #[test]
    fn the_headline_is_what_was_lost_then_why_nothing_is_recorded() {
        let mut report =
            ControlReport { reason: "jank: cool-down".to_owned(), ..ControlReport::default() };
        report.config = Some(ConfigReport::default());
        assert_eq!(headline(&report, true), None);
        let reason = "recording began 5 ms after".to_owned();
        report.late_start = Some(LateStartReport { ms: 5, reason });
        assert_eq!(headline(&report, true).unwrap(), "recording began 5 ms after");
        report.trouble = Some("cannot write the ledger".to_owned());
        assert_eq!(headline(&report, true).unwrap(), "cannot write the ledger");
        let off = "nothing is recorded now: jank: cool-down";
        assert_eq!(headline(&report, false).unwrap(), off);
        report.captures_lost = 2;
        report.last_lost = Some(LostReport {
            window: "w".to_owned(),
            why: "asked for".to_owned(),
            reason: "no disk".to_owned(),
        });
        let lost = "a capture was lost (2 in all): w (asked for): no disk";
        assert_eq!(headline(&report, true).unwrap(), lost);
        assert_eq!(headline(&report, false).unwrap(), format!("{lost}; {off}"));
    }
}
