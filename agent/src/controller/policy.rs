//! A remote configuration on this device: which windows take part, and why others do not.

use super::budget_ledger::Now;
use tracetee_protocol::json::Decimal;
use tracetee_protocol::remote_config::{Budget, Document, Match, Sampling, StackSampling, Window};

/// The properties of the device that sampling and `match` use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Device {
    /// An id that stays for the life of the installation, and says nothing about the user.
    pub(crate) install_id: String,
    pub(crate) version_code: Option<u64>,
    pub(crate) api: Option<u32>,
}

/// A document on this device.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Policy {
    pub(crate) document: Document,
    /// The reason why nothing is ever recorded; `None` if recording is possible.
    pub(crate) off: Option<String>,
    /// Reasons for which windows of the document do not take part here, by window; `None` when
    /// it does.
    pub(crate) out: Vec<Option<String>>,
    /// Reason for which coroutines are not traced here; `None` when they are.
    coroutines_out: Option<String>,
    /// The device's bucket for samples of callstacks.
    stacks_bucket: Decimal,
    /// True if the device is one of the devices that are counted.
    counts: bool,
}

impl Policy {
    pub(crate) fn new(document: Document, device: &Device) -> Self {
        let off = if document.kill.on {
            Some("the kill switch is on".to_owned())
        } else {
            not_sampled(&document.sampling, "", device)
        };
        let out = |window: &Window| {
            not_sampled(&window.sampling, &window.id, device)
                .or_else(|| not_matched(&window.matches, device))
        };
        let out = document.windows.iter().map(out).collect();
        let coroutines = &document.coroutines;
        let coroutines_out = not_sampled(&coroutines.sampling, "coroutines", device)
            .or_else(|| not_matched(&coroutines.matches, device));
        let stacks_bucket = bucket(&device.install_id, "stacks");
        let ledger = &document.ledger;
        let counts = ledger.on && not_sampled(&ledger.sampling, "ledger", device).is_none();
        Self { document, off, out, coroutines_out, stacks_bucket, counts }
    }

    /// The policy before any configuration: off.
    pub(crate) fn none() -> Self {
        let off = Some("there is no configuration yet".to_owned());
        let document = Document::default();
        let stacks_bucket = Decimal::whole(100);
        Self { document, off, out: Vec::new(), coroutines_out: None, stacks_bucket, counts: false }
    }

    /// The reason why nothing may be recorded now.
    pub(crate) fn off_at(&self, now: Now) -> Option<String> {
        let expired =
            || self.expired(now).map(|s| format!("the configuration expired at Unix time {s}"));
        self.off.clone().or_else(expired)
    }

    fn expired(&self, now: Now) -> Option<u64> {
        self.document.not_after.filter(|&s| s < now.real_ms / 1000)
    }

    /// True if the ledger counts now. Neither the sample of devices that record nor what went wrong with hooks matters.
    pub(crate) fn counts_at(&self, now: Now) -> bool {
        self.counts && !self.document.kill.on && self.expired(now).is_none()
    }

    /// Whether coroutines are to be traced: `Err` with the reason if the document wants it, but not here; `Ok(false)` if it
    /// does not.
    pub(crate) fn coroutines_at(&self, now: Now) -> Result<bool, String> {
        let refused = || self.off_at(now).or_else(|| self.coroutines_out.clone());
        match self.document.coroutines.on.then(refused) {
            Some(Some(reason)) => Err(reason),
            asked => Ok(asked.is_some()),
        }
    }

    /// The windows that take part here, each with its index.
    pub(crate) fn windows(&self) -> impl Iterator<Item = (usize, &Window)> {
        let all = self.document.windows.iter().zip(&self.out).enumerate();
        all.filter(|(_, (_, out))| out.is_none()).map(|(index, (window, _))| (index, window))
    }

    /// The window with that index, if it is active on this device.
    pub(crate) fn window(&self, index: usize) -> Option<&Window> {
        self.windows().find(|&(other, _)| other == index).map(|(_, window)| window)
    }

    /// The index of the window of that id, if it takes part here.
    pub(crate) fn by_id(&self, id: &str) -> Option<usize> {
        self.windows().find(|(_, window)| window.id == id).map(|(index, _)| index)
    }

    /// Returns how this device samples callstacks in a recording of these windows.
    pub(crate) fn stacks(&self, windows: &[&Window]) -> Option<StackSampling> {
        let all = Decimal::whole(100);
        let takes_part =
            |one: &StackSampling| one.percent >= all || self.stacks_bucket < one.percent;
        windows.iter().filter_map(|window| window.stacks).find(takes_part)
    }

    pub(crate) const fn budget(&self) -> &Budget {
        &self.document.budget
    }
}

/// The device's bucket for a salt, 0 to 100: evenly spread, and always the same.
pub(crate) fn bucket(install_id: &str, salt: &str) -> Decimal {
    let mut hash = hmac_sha256::Hash::new();
    hash.update(install_id.as_bytes());
    hash.update(salt.as_bytes());
    let digest = hash.finalize();
    let number = digest.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
    Decimal::ratio(u64::from(number) * 100, u32::MAX.into())
}

/// Returns why a share of the devices excludes this one; `salt` is used if the share has none.
pub(super) fn not_sampled(sampling: &Sampling, salt: &str, device: &Device) -> Option<String> {
    let bucket = bucket(&device.install_id, sampling.salt.as_deref().unwrap_or(salt));
    let percent = sampling.percent;
    let is_in = percent >= Decimal::whole(100) || bucket < percent;
    (!is_in).then(|| format!("not sampled: bucket {bucket:.2} of the device, {percent} take part"))
}

fn not_matched(matches: &Match, device: &Device) -> Option<String> {
    fn outside<T: PartialOrd + std::fmt::Display + Copy>(
        range: Option<(T, T)>,
        value: Option<T>,
        what: &str,
    ) -> Option<String> {
        let (from, to) = range?;
        match value {
            Some(value) if from <= value && value <= to => None,
            Some(value) => Some(format!("{what} {value} is not from {from} to {to}")),
            None => Some(format!("{what} is not known, must be from {from} to {to}")),
        }
    }
    outside(matches.version_code, device.version_code, "version code")
        .or_else(|| outside(matches.api, device.api, "API level"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_devices_samples_callstacks_in_windows_that_ask_for_it() {
        let sampled = |percent: i32| StackSampling {
            percent: Decimal::whole(percent),
            ..StackSampling::default()
        };
        let window = |stacks| Window { stacks, ..Window::default() };
        let count = |windows: &[&Window]| {
            let devices = (0..1000).map(|number| Device {
                install_id: format!("install-{number}"),
                ..Device::default()
            });
            let policies = devices.map(|device| Policy::new(Document::default(), &device));
            policies.filter(|policy| policy.stacks(windows).is_some()).count()
        };
        let (off, none, all) = (window(None), window(Some(sampled(0))), window(Some(sampled(100))));
        assert_eq!(
            [count(&[]), count(&[&off]), count(&[&none]), count(&[&off, &all])],
            [0, 0, 0, 1000]
        );
        let some = count(&[&none, &window(Some(sampled(20)))]);
        assert!((150..250).contains(&some), "{some} of 1000");
        assert!(Policy::none().stacks(&[&window(Some(sampled(99)))]).is_none());
    }

    #[test]
    fn a_device_stays_in_or_out_and_shares_come_out_as_asked() {
        let ids: Vec<_> = (0..4000).map(|number| format!("install-{number}")).collect();
        for percent in [0, 1, 25, 100] {
            let sampling = Sampling { percent: Decimal::whole(percent), salt: None };
            let is_in = |id: &String| {
                let device = Device { install_id: id.clone(), ..Device::default() };
                not_sampled(&sampling, "w", &device).is_none()
            };
            let count = u32::try_from(ids.iter().filter(|id| is_in(id)).count()).unwrap();
            let share = f64::from(count) / 40.0;
            assert!((share - f64::from(percent)).abs() <= 2.0, "{share} of {percent}");
            assert!(ids.iter().all(|id| is_in(id) == is_in(id)));
        }
        // Growing the share keeps those who were in.
        assert!(
            ids.iter().all(|id| (Decimal::ZERO..=Decimal::whole(100)).contains(&bucket(id, "")))
        );
        let is_low = |id, salt| bucket(id, salt) < Decimal::whole(50);
        let both = ids.iter().filter(|id| is_low(id, "a") && is_low(id, "b"));
        assert!((900..1100).contains(&both.count()), "salts do not correlate");
    }

    #[test]
    fn windows_hold_where_they_match() {
        let document = Document {
            windows: vec![Window {
                id: "w".into(),
                matches: Match { version_code: Some((10, 20)), api: Some((30, 36)) },
                ..Window::default()
            }],
            ..Document::default()
        };
        let out = |version_code, api| {
            let device = Device { version_code, api, ..Device::default() };
            Policy::new(document.clone(), &device).out.remove(0).unwrap_or_default()
        };
        assert_eq!(out(Some(10), Some(36)), "");
        assert_eq!(out(Some(21), Some(36)), "version code 21 is not from 10 to 20");
        assert_eq!(out(Some(15), None), "API level is not known, must be from 30 to 36");
    }

    #[test]
    fn coroutines_are_traced_where_a_document_says_so() {
        let now = Now { boot_ms: 0, real_ms: 200_000 };
        let at = |change: &dyn Fn(&mut Document)| {
            let mut document = Document::default();
            document.coroutines.on = true;
            change(&mut document);
            Policy::new(document, &Device { api: Some(30), ..Device::default() }).coroutines_at(now)
        };
        assert_eq!(at(&|_| ()), Ok(true));
        assert_eq!(at(&|document| document.coroutines.on = false), Ok(false));
        assert_eq!(
            at(&|document| document.kill.on = true),
            Err("the kill switch is on".to_owned())
        );
        assert!(at(&|document| document.not_after = Some(100)).is_err());
        let none = Sampling { percent: Decimal::ZERO, salt: None };
        let refused = at(&|document| document.coroutines.sampling = none.clone()).unwrap_err();
        assert!(refused.starts_with("not sampled: bucket"), "{refused}");
        let later = Match { api: Some((31, 40)), ..Match::default() };
        let refused = at(&|document| document.coroutines.matches = later).unwrap_err();
        assert_eq!(refused, "API level 30 is not from 31 to 40");
        assert_eq!(Policy::none().coroutines_at(now), Ok(false));
    }

    #[test]
    fn the_ledger_counts_on_devices_that_do_not_record() {
        let now = Now { boot_ms: 0, real_ms: 200_000 };
        let none = Sampling { percent: Decimal::ZERO, salt: None };
        let at = |change: &dyn Fn(&mut Document)| {
            let mut document = Document { sampling: none.clone(), ..Document::default() };
            document.ledger.on = true;
            change(&mut document);
            let policy = Policy::new(document, &Device::default());
            assert!(policy.off_at(now).is_some());
            policy.counts_at(now)
        };
        assert!(at(&|_| ()));
        assert!(!at(&|document| document.ledger.on = false));
        assert!(!at(&|document| document.kill.on = true));
        assert!(!at(&|document| document.not_after = Some(100)));
        assert!(!at(&|document| document.ledger.sampling = none.clone()));
        assert!(!Policy::none().counts_at(now));
    }

    #[test]
    fn an_expired_document_is_off() {
        let document = Document { not_after: Some(100), ..Document::default() };
        let policy = Policy::new(document, &Device::default());
        assert_eq!(policy.off_at(Now { boot_ms: 0, real_ms: 100_999 }), None);
        assert!(policy.off_at(Now { boot_ms: 0, real_ms: 101_000 }).is_some());
    }
}
