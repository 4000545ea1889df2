//! The sources of configurations, and the conditions under which one comes into force.
//!
//! A configuration arrives with its signature: from the watched file, from the app, or from the agent's directory, where the
//! last run stored it. It comes into force if it is signed (if a key is given), valid in every field, not expired, and not
//! older than the one in force. The health report gives the reason for a refusal; the configuration in force stays.

use super::budget_ledger::Now;
use super::install::Install;
use super::policy::{self, Device};
use super::remote_config::parse;
use super::state_dir::StateDir;
use crate::error::Error;
use hex::FromHex;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tracetee_protocol::json::Limits;
use tracetee_protocol::record;
use tracetee_protocol::remote_config::{Asks, Document, Opens, Sampling};

/// A configuration in force.
#[derive(Debug, Clone)]
pub(crate) struct InForce {
    pub(crate) document: Document,
    pub(crate) warnings: Vec<String>,
    bytes: Vec<u8>,
}

/// The checks that a configuration must pass to come into force.
#[derive(Debug)]
pub(crate) struct ConfigSource {
    key: Option<[u8; 32]>,
    watched: Option<Watched>,
    pub(crate) in_force: Option<InForce>,
    /// The signature of the configuration in force, until both are in the agent's directory.
    unkept: Option<Vec<u8>>,
    /// The collector's requests for windows in its last response.
    asks: Asks,
    /// The newest one that was ever in force, according to the disk too.
    highest: Option<Highest>,
    /// The reason why the last offered configuration is not in force.
    pub(crate) refused: Option<String>,
}

record! {
    /// The newest configuration that was ever in force.
    #[derive(Eq)]
    struct Highest {
        /// The number of the document.
        seq: u64 = 0,
        /// SHA-256 of the document, hexadecimal: the same document may be offered again, a different one with its number may
        /// not.
        sha256: String = String::new(),
    }
}

impl Highest {
    fn from_document(seq: u64, bytes: &[u8]) -> Self {
        Self { seq, sha256: hex::encode(hmac_sha256::Hash::hash(bytes)) }
    }
}

/// The file of [`Highest`].
const HIGHEST: &str = "highest.json";
/// The file of the collector's requests.
const ASKS: &str = "asks.json";

#[derive(Debug)]
struct Watched {
    path: PathBuf,
    /// The file and its signature as they were when they were last read.
    last_read: Option<[Look; 2]>,
}

/// Device, inode, length, time of change in ns; `None` when the file is missing.
type Look = Option<(u64, u64, u64, i64)>;

impl ConfigSource {
    pub(crate) fn new(install: &Install) -> Result<Self, Error> {
        let watched = |path: &PathBuf| Watched { path: path.clone(), last_read: None };
        Ok(Self {
            key: install.key()?,
            watched: install.config_file.as_ref().map(watched),
            in_force: None,
            unkept: None,
            asks: Asks::default(),
            highest: None,
            refused: None,
        })
    }

    /// Takes the configuration of the last run. `true`: it is in force.
    pub(crate) fn load(&mut self, store: &StateDir, now: Now) -> bool {
        self.read_highest(store);
        let asks = store.read(ASKS).and_then(|json| Asks::parse(&json).ok());
        self.asks = asks.unwrap_or_default();
        let Some(bytes) = store.read("config.json") else { return false };
        let signature = store.read("config.sig").unwrap_or_default();
        match self.admit(&bytes, &signature, now) {
            Ok(in_force) => {
                // Written by an older agent that did not store the number.
                let seq = in_force.document.seq;
                if self.highest.as_ref().is_none_or(|highest| highest.seq < seq) {
                    let _ = self.keep_highest(store, Highest::from_document(seq, &bytes));
                }
                self.in_force = Some(in_force);
                true
            }
            Err(reason) => {
                self.refused = Some(format!("the last run's: {reason}"));
                false
            }
        }
    }

    /// Returns true if the configuration in force records something from the app's start on, traces coroutines or counts, unless
    /// something else keeps it from that.
    pub(crate) fn counts_at_start(&self) -> bool {
        self.in_force.as_ref().is_some_and(|InForce { document, .. }| {
            !self.asks.asks.is_empty()
                || document.coroutines.on
                || document.ledger.on
                || document.windows.iter().any(|window| !matches!(window.opens, Opens::Manual))
        })
    }

    /// Reads the watched file if it has changed. `true`: another configuration is in force, which
    /// [`ConfigSource::keep`] is to keep.
    pub(crate) fn look(&mut self, store: &StateDir, now: Now) -> bool {
        let Some(watched) = &mut self.watched else { return false };
        let signature = watched.path.with_added_extension("sig");
        let looks = [look_at(&watched.path), look_at(&signature)];
        if looks[0].is_none() || watched.last_read.as_ref() == Some(&looks) {
            return false;
        }
        watched.last_read = Some(looks);
        let path = watched.path.clone();
        match std::fs::read(&path) {
            Ok(bytes) => {
                let signature = std::fs::read(signature).unwrap_or_default();
                self.offer(&bytes, &signature, store, now)
            }
            Err(error) => {
                self.refused = Some(format!("{}: {error}", path.display()));
                false
            }
        }
    }

    /// Puts a configuration in force if it is acceptable. `true`: it differs from the previous one, and
    /// [`ConfigSource::keep`] must store it.
    pub(crate) fn offer(
        &mut self,
        bytes: &[u8],
        signature: &[u8],
        store: &StateDir,
        now: Now,
    ) -> bool {
        if self.in_force.as_ref().is_some_and(|present| present.bytes == bytes) {
            self.refused = None;
            return false;
        }
        // Another process of the app may have received a newer one.
        self.read_highest(store);
        match self.admit(bytes, signature, now) {
            Ok(in_force) => {
                self.refused = None;
                self.highest = Some(Highest::from_document(in_force.document.seq, bytes));
                self.unkept = Some(signature.to_vec());
                self.in_force = Some(in_force);
                true
            }
            Err(reason) => {
                self.refused = Some(reason);
                false
            }
        }
    }

    /// Keeps the configuration in force for the next start, if it is a new one.
    pub(crate) fn keep(&mut self, store: &StateDir) {
        let Some(signature) = self.unkept.take() else { return };
        let (Some(in_force), Some(highest)) = (&self.in_force, &self.highest) else { return };
        // Writes the signature first: a configuration without its signature is refused at the next start, which is the safer
        // error.
        let kept = store
            .write(HIGHEST, record::to_json(highest).as_bytes())
            .and_then(|()| store.write("config.sig", &signature))
            .and_then(|()| store.write("config.json", &in_force.bytes));
        if let Err(error) = kept {
            self.refused = Some(format!("not kept for the next start: {error}"));
        }
    }

    /// Takes the collector's requests for windows, replacing the previous ones. Keeps the time at which each first arrived.
    pub(crate) fn take_asks(&mut self, json: &str, store: &StateDir, now: Now) {
        let mut new = Asks::parse(json.as_bytes()).unwrap_or_default();
        for ask in &mut new.asks {
            let known = self.asks.asks.iter().find(|known| known.id == ask.id);
            ask.since_ms = known.map_or(now.real_ms, |known| known.since_ms);
        }
        if new != self.asks {
            self.asks = new;
            // If they cannot be stored, they apply until the process ends.
            let _ = store.replace(ASKS, record::to_json(&self.asks).as_bytes());
        }
    }

    /// Returns the document in force, with the windows that the collector asks this device for, as far as the document
    /// allows them.
    pub(crate) fn document(&self, device: &Device, now: Now) -> Option<Document> {
        let mut document = self.in_force.as_ref()?.document.clone();
        for ask in &self.asks.asks {
            let Some((allowed, window)) = document.allowed(ask) else { continue };
            // If the clock was set back, the request has ended.
            let age_ms = now.real_ms.checked_sub(ask.since_ms);
            let is_present = age_ms.is_some_and(|ms| ms < allowed.for_s.saturating_mul(1000));
            let sampling = Sampling { percent: ask.percent, salt: Some(ask.id.clone()) };
            let is_there = document.windows.iter().any(|other| other.id == window.id);
            if is_present && !is_there && policy::not_sampled(&sampling, "", device).is_none() {
                document.windows.push(window);
            }
        }
        Some(document)
    }

    /// SHA-256 of the configuration in force.
    pub(crate) fn digest(&self) -> Option<[u8; 32]> {
        self.in_force.as_ref().map(|present| hmac_sha256::Hash::hash(&present.bytes))
    }

    /// Reads the newest number. A damaged file counts as missing: anyone who can damage it can delete it.
    fn read_highest(&mut self, store: &StateDir) {
        let kept = store.read(HIGHEST);
        let kept = kept.and_then(|json| record::parse(&json, Limits::DEFAULT).ok());
        let kept = kept.filter(|kept: &Highest| {
            !kept.sha256.is_empty()
                && self.highest.as_ref().is_none_or(|highest| highest.seq <= kept.seq)
        });
        if kept.is_some() {
            self.highest = kept;
        }
    }

    fn keep_highest(&mut self, store: &StateDir, highest: Highest) -> Result<(), Error> {
        let json = record::to_json(&highest);
        self.highest = Some(highest);
        store.write(HIGHEST, json.as_bytes())
    }

    fn admit(&self, bytes: &[u8], signature: &[u8], now: Now) -> Result<InForce, String> {
        if let Some(key) = self.key {
            check_signature(key, bytes, signature)?;
        }
        let parsed = parse(bytes).map_err(|error| error.to_string())?;
        let document = parsed.document;
        if let Some(Highest { seq: highest, sha256 }) = &self.highest {
            let seq = document.seq;
            let is_in_force =
                self.in_force.as_ref().is_some_and(|present| present.document.seq == *highest);
            let which = if is_in_force { "is in force" } else { "was in force" };
            if seq < *highest {
                return Err(format!("seq: {seq} is older than {highest}, which {which}"));
            }
            if seq == *highest && *sha256 != Highest::from_document(seq, bytes).sha256 {
                return Err(format!("seq: {seq} {which} with another content"));
            }
        }
        if let Some(not_after) = document.not_after.filter(|&s| s < now.real_ms / 1000) {
            return Err(format!("not_after: it expired at Unix time {not_after}"));
        }
        Ok(InForce { document, warnings: parsed.warnings, bytes: bytes.to_vec() })
    }
}

/// A detached Ed25519 signature over the exact bytes: 64 bytes, or their hexadecimal digits.
fn check_signature(key: [u8; 32], bytes: &[u8], signature: &[u8]) -> Result<(), String> {
    use ed25519_compact::{PublicKey, Signature};
    if signature.is_empty() {
        return Err("signature: there is none, and a public key is configured".to_owned());
    }
    let raw = <[u8; 64]>::try_from(signature)
        .or_else(|_| FromHex::from_hex(signature.trim_ascii()))
        .map_err(|_| "signature: neither 64 bytes nor 128 hexadecimal digits")?;
    PublicKey::new(key)
        .verify(bytes, &Signature::new(raw))
        .map_err(|_| "signature: not made for these bytes by the configured key".to_owned())
}

fn look_at(path: &Path) -> Look {
    let metadata = std::fs::metadata(path).ok()?;
    let changed_ns =
        metadata.mtime().wrapping_mul(1_000_000_000).wrapping_add(metadata.mtime_nsec());
    Some((metadata.dev(), metadata.ino(), metadata.len(), changed_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracetee_protocol::json::Decimal;

    struct Setup {
        directory: tempfile::TempDir,
        store: StateDir,
        source: ConfigSource,
    }

    const NOW: Now = Now { boot_ms: 0, real_ms: 1_000_000 };

    fn setup(public_key: Option<String>) -> Setup {
        let directory = tempfile::tempdir().unwrap();
        let config_file = Some(directory.path().join("remote.json"));
        let install = Install { config_file, public_key, ..Install::default() };
        let store = StateDir::open(&directory.path().join("agent")).unwrap();
        Setup { source: ConfigSource::new(&install).unwrap(), store, directory }
    }

    fn text(seq: u64) -> Vec<u8> {
        format!(r#"{{"schema": 1, "seq": {seq}}}"#).into_bytes()
    }

    impl Setup {
        fn put(&mut self, bytes: &[u8]) -> bool {
            std::fs::write(self.directory.path().join("remote.json"), bytes).unwrap();
            // The time of change may be the same.
            self.source.watched.as_mut().unwrap().last_read = None;
            let is_new = self.source.look(&self.store, NOW);
            self.source.keep(&self.store);
            is_new
        }

        fn seq(&self) -> Option<u64> {
            self.source.in_force.as_ref().map(|present| present.document.seq)
        }

        fn refused(&self) -> &str {
            self.source.refused.as_deref().unwrap_or_default()
        }
    }

    #[test]
    fn a_watched_file_is_in_force_until_a_newer_one_is_and_over_restarts() {
        let mut setup = setup(None);
        assert!(!setup.source.look(&setup.store, NOW), "it is not there yet");
        assert!(setup.put(&text(5)));
        assert!(!setup.put(&text(5)));
        assert!(!setup.put(&text(4)));
        assert_eq!(setup.refused(), "seq: 4 is older than 5, which is in force");
        assert!(!setup.put(br#"{"schema": 1, "seq": 5, "kill": {"on": true}}"#));
        assert_eq!(setup.refused(), "seq: 5 is in force with another content");
        assert!(!setup.put(br#"{"schema": 1, "seq": 6, "windows": 7}"#));
        assert!(setup.refused().starts_with("windows: must be an array, not 7"));
        assert!(!setup.put(br#"{"schema": 1, "seq": 6, "not_after": 999}"#));
        assert_eq!(setup.refused(), "not_after: it expired at Unix time 999");
        assert_eq!(setup.seq(), Some(5));
        assert!(setup.put(&text(7)));
        assert_eq!((setup.seq(), setup.refused()), (Some(7), ""));

        let mut next = ConfigSource::new(&Install::default()).unwrap();
        assert!(next.load(&setup.store, NOW));
        assert_eq!(next.in_force.unwrap().document.seq, 7);
    }

    #[test]
    fn with_a_key_only_a_signed_configuration_comes_into_force() {
        let pair = ed25519_compact::KeyPair::from_seed(ed25519_compact::Seed::new([7; 32]));
        let mut setup = setup(Some(hex::encode(*pair.pk)));
        let signature = pair.sk.sign(text(5), None);
        let offer = |setup: &mut Setup, bytes: &[u8], signature: &[u8]| {
            let is_new = setup.source.offer(bytes, signature, &setup.store, NOW);
            setup.source.keep(&setup.store);
            is_new
        };
        assert!(!offer(&mut setup, &text(5), b""));
        assert!(setup.refused().starts_with("signature: there is none"));
        assert!(!offer(&mut setup, &text(5), b"abc"));
        assert!(setup.refused().starts_with("signature: neither"));
        assert!(!offer(&mut setup, &text(6), &*signature));
        assert!(setup.refused().starts_with("signature: not made"));
        assert!(offer(&mut setup, &text(5), &*signature));
        // The digits do as well, and the one on the disk is looked at again.
        assert!(offer(&mut setup, &text(6), hex::encode(*pair.sk.sign(text(6), None)).as_bytes()));
        setup.source.in_force = None;
        assert!(setup.source.load(&setup.store, NOW));
        setup.store.write("config.json", &text(8)).unwrap();
        setup.source.in_force = None;
        assert!(!setup.source.load(&setup.store, NOW));
        assert!(setup.refused().starts_with("the last run's: signature"));
    }

    #[test]
    fn the_highest_number_holds_over_expiry_and_restarts() {
        let mut setup = setup(None);
        let expires = br#"{"schema": 1, "seq": 5, "not_after": 2000}"#;
        assert!(setup.put(expires));
        let later = Now { boot_ms: 0, real_ms: 3_000_000 };
        let mut next = ConfigSource::new(&Install::default()).unwrap();
        assert!(!next.load(&setup.store, later), "it has expired");
        let mut offer = |bytes: &[u8]| {
            let is_new = next.offer(bytes, b"", &setup.store, later);
            (is_new, next.refused.clone().unwrap_or_default())
        };
        let (is_new, refused) = offer(&text(3));
        assert_eq!((is_new, &*refused), (false, "seq: 3 is older than 5, which was in force"));
        let (is_new, refused) = offer(&text(5));
        assert_eq!((is_new, &*refused), (false, "seq: 5 was in force with another content"));
        assert!(!offer(expires).0, "it expired");
        // The way back is the old content under a new number.
        assert!(offer(&text(6)).0);
        assert!(!offer(&text(5)).0);
    }

    #[test]
    fn the_collector_gets_no_more_than_the_signed_document_allows() {
        let pair = ed25519_compact::KeyPair::from_seed(ed25519_compact::Seed::new([7; 32]));
        let mut setup = setup(Some(hex::encode(*pair.pk)));
        let text =
            br#"{"schema": 1, "seq": 5, "windows": [{"id": "w"}], "on_demand": [{"for_s": 100,
            "window": {"id": "more", "match": {"version_code": [10, 20]}, "max_s": 7}}]}"#;
        assert!(setup.source.offer(text, &*pair.sk.sign(text, None), &setup.store, NOW));
        setup.source.keep(&setup.store);
        let device = Device { install_id: "i".into(), ..Device::default() };
        let ask = |setup: &mut Setup, asks: &str, s: u64| {
            let now = Now { boot_ms: 0, real_ms: NOW.real_ms + s * 1000 };
            setup.source.take_asks(asks, &setup.store, now);
            setup.source.document(&device, now).unwrap().windows.split_off(1)
        };
        let asks = |id: &str, fields: &str| {
            format!(r#"{{"asks": [{{"id": "{id}", "window": "more", {fields}}}]}}"#)
        };
        let all = asks("a", r#""percent": 100, "version_code": [15, 30], "max_s": 3600"#);
        assert!(ask(&mut setup, "", 0).is_empty());
        let asked = ask(&mut setup, &all, 0);
        assert_eq!(asked.len(), 1);
        assert_eq!(
            (asked[0].max_s, asked[0].matches.version_code),
            (Decimal::whole(7), Some((15, 20)))
        );
        // The time of a request counts from the first answer that had it. A restart, or a later time in
        // another answer, does not change that.
        let again = asks("a", r#""percent": 100, "since_ms": 99000000"#);
        assert_eq!(ask(&mut setup, &again, 99).len(), 1);
        let mut next = ConfigSource::new(&Install::default()).unwrap();
        assert!(next.load(&setup.store, NOW) && next.counts_at_start());
        let windows = |s: u64| {
            let now = Now { boot_ms: 0, real_ms: NOW.real_ms + s * 1000 };
            next.document(&device, now).unwrap().windows.len()
        };
        assert_eq!([windows(0), windows(99), windows(100)], [2, 2, 1]);
        assert!(ask(&mut setup, &again, 100).is_empty());
        for refused in [
            asks("b", r#""percent": 0"#),
            asks("b", r#""percent": 101"#),
            asks("b", r#""percent": 100"#).replace("more", "w"),
            asks("b", r#""percent": 100"#).replace("more", "other"),
            "{".to_owned(),
        ] {
            assert!(ask(&mut setup, &refused, 0).is_empty(), "{refused}");
        }
        assert_eq!(ask(&mut setup, &asks("c", r#""percent": 100"#), 0).len(), 1);
        let some = (0..1000).filter(|number| {
            let device = Device { install_id: format!("install-{number}"), ..Device::default() };
            setup.source.take_asks(&asks("d", r#""percent": 20"#), &setup.store, NOW);
            setup.source.document(&device, NOW).unwrap().windows.len() == 2
        });
        assert!((150..250).contains(&some.count()));
        assert!(ask(&mut setup, "", 0).is_empty(), "the next answer has it no more");
    }

    #[test]
    fn a_configuration_older_than_another_process_s_is_refused() {
        let mut setup = setup(None);
        assert!(setup.put(&text(5)));
        let mut other = ConfigSource::new(&Install::default()).unwrap();
        assert!(other.load(&setup.store, NOW));
        assert!(setup.put(&text(9)));
        assert!(!other.offer(&text(7), b"", &setup.store, NOW));
        assert!(other.offer(&text(9), b"", &setup.store, NOW), "the same one may come to all");
    }
}
