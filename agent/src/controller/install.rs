//! The arguments of `tracetee_install`, which the app gives once, at the start: the directory of the
//! agent's files, the identity of the installation, the source of its configuration.

use super::policy::Device;
use crate::android::properties;
use crate::error::Error;
use hex::FromHex;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tracetee_ledger::{MAX_ATTRIBUTES, MAX_NAME_BYTES};
use tracetee_protocol::json::{self, Limits};
use tracetee_protocol::record::RawJson;
use tracetee_protocol::{CaptureMeta, record, words};
use tracetee_uploader::{Endpoint, NetState};

record! {
    /// The arguments of `tracetee_install`.
    #[derive(Eq)]
    pub struct Install {
        /// The agent's own directory, in the app's private files; created if it is missing.
        pub directory: PathBuf = PathBuf::new(); required(); check(is_absolute),
        /// An id that stays the same for the life of the installation and does not identify the user. Without
        /// it, the agent makes a random one and keeps it in `directory`.
        pub install_id: Option<String> = None; check(is_install_id),
        /// The app's version code.
        pub version_code: Option<u64> = None,
        /// The name of the process, for the collector: an app may have several.
        pub process: Option<String> = None,
        /// Android's API level. Default: the property `ro.build.version.sdk`.
        pub api: Option<u32> = None,
        /// A file with the remote configuration, which the agent checks once a second. Its detached signature, if one is
        /// required, has the same name with `.sig` added.
        pub config_file: Option<PathBuf> = None,
        /// The Ed25519 key, 64 hexadecimal digits, that must have signed every configuration.
        pub public_key: Option<String> = None; check(is_key),
        /// The user's consent. The last answer holds across restarts; without any, yes.
        pub consent: Option<bool> = None,
        /// The app's id (`com.example.app`), for the collector.
        pub app: Option<String> = None,
        /// The app's version in human-readable form, for the collector.
        pub version_name: Option<String> = None,
        /// Further facts about the device for the collector (`model` …): at most 512 bytes of JSON.
        pub device: BTreeMap<String, RawJson> = BTreeMap::new(); check(is_short),
        /// Attributes of this installation, for example `{"plan": "premium"}`. The ledger counts each combination of values
        /// separately: at most 4 attributes, each with few values.
        pub segment: BTreeMap<String, String> = BTreeMap::new(); check(is_segment),
        /// Time that the installation waits for files, ms, if something is to be recorded from the
        /// app's start on. What takes longer is recorded later.
        pub start_wait_ms: u32 = 3; within(0..=MAX_START_WAIT_MS),
        /// A random id of this process, 16 hexadecimal digits. The Android library gives it, reports at the start how
        /// earlier processes ended, and has each find its crash-proof recorder by it; recovery waits for the report.
        pub run: Option<String> = None; check(is_run),
        /// The destination of captures. Without it they stay on the device.
        pub upload: Option<UploadTo> = None,
    }

    /// The destination of captures, and the way to it.
    #[derive(Eq)]
    pub struct UploadTo {
        /// The collector's address, `https://host[:port][/path]`.
        pub url: String = String::new(); required(),
        /// The token that identifies the app there.
        pub token: Option<String> = None,
        /// Allows `http://` to other machines.
        pub cleartext: bool = false,
        /// The sender. Default: the agent if it is built with HTTP, else the app.
        pub transport: Option<TransportChoice> = None,
        /// The certificates, in PEM, that must have signed the server's. Default: Mozilla's.
        pub ca_file: Option<PathBuf> = None,
        /// The device's network and power, until `tracetee_set_network` changes it. Default: off
        /// Android mains and a network that costs nothing, on Android a metered network.
        pub net: Option<NetState> = None,
        /// Asks the collector for the remote configuration. Default true.
        pub config: Option<bool> = None,
    }
}

words! {
    /// The sender of requests.
    pub enum TransportChoice {
        /// The agent, on its own thread.
        Http = "http",
        /// The app, when it calls `tracetee_upload`.
        App = "app",
    }
}

/// Limit of `start_wait_ms`: the agent must not use up an app's first seconds.
const MAX_START_WAIT_MS: u32 = 10_000;

/// Bytes of `device` as JSON: it goes into a header of each upload.
const MAX_DEVICE_BYTES: usize = 512;

fn is_absolute(directory: &Path) -> Result<(), String> {
    if directory.is_absolute() { Ok(()) } else { Err("must be an absolute path".to_owned()) }
}

fn is_install_id(id: &Option<String>) -> Result<(), String> {
    match id.as_ref().map(String::len) {
        None | Some(1..=256) => Ok(()),
        Some(_) => Err("must have 1 to 256 bytes".to_owned()),
    }
}

fn is_run(id: &Option<String>) -> Result<(), String> {
    match id.as_deref().map(|id| id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
    {
        Some(false) => Err("is not 16 hexadecimal digits".to_owned()),
        None | Some(true) => Ok(()),
    }
}

fn is_key(digits: &Option<String>) -> Result<(), String> {
    match digits.as_deref().map(key_from_hex) {
        Some(None) => Err("is not 64 hexadecimal digits (an Ed25519 public key)".to_owned()),
        _ => Ok(()),
    }
}

fn is_short(device: &BTreeMap<String, RawJson>) -> Result<(), String> {
    if record::to_json(device).len() > MAX_DEVICE_BYTES {
        return Err(format!("has more than {MAX_DEVICE_BYTES} bytes"));
    }
    Ok(())
}

fn is_segment(segment: &BTreeMap<String, String>) -> Result<(), String> {
    let is_short = |text: &String| (1..=MAX_NAME_BYTES).contains(&text.len());
    if segment.len() > MAX_ATTRIBUTES
        || !segment.iter().all(|(name, value)| is_short(name) && is_short(value))
    {
        return Err(format!(
            "has more than {MAX_ATTRIBUTES} attributes, or a name or value without 1 to {MAX_NAME_BYTES} bytes"
        ));
    }
    Ok(())
}

fn key_from_hex(digits: &str) -> Option<[u8; 32]> {
    FromHex::from_hex(digits.trim()).ok()
}

impl Install {
    /// Reads and checks a JSON document.
    ///
    /// # Errors
    /// [`Error::Config`] with the field.
    pub fn from_json(text: &str) -> Result<Self, Error> {
        let install: Self = record::parse(text.as_bytes(), Limits::DEFAULT)?;
        install.validate()?;
        Ok(install)
    }

    /// Checks every limit.
    ///
    /// # Errors
    /// [`Error::Config`] with the field.
    pub fn validate(&self) -> Result<(), Error> {
        record::check(self)?;
        self.endpoint().map(drop)
    }

    /// The key as bytes. Without a valid one no configuration could be checked, so it is an error.
    pub(crate) fn key(&self) -> Result<Option<[u8; 32]>, Error> {
        let Some(digits) = &self.public_key else { return Ok(None) };
        match key_from_hex(digits) {
            Some(key) => Ok(Some(key)),
            None => Err(json::Error::new("public_key", "is not 64 hexadecimal digits").into()),
        }
    }

    /// The destination of captures, if there is one, and the sender.
    pub(crate) fn endpoint(&self) -> Result<Option<(Endpoint, TransportChoice)>, Error> {
        let Some(upload) = &self.upload else { return Ok(None) };
        let refuse = |field: &str, reason: String| Error::from(json::Error::new(field, reason));
        let UploadTo { url, token, cleartext, .. } = upload;
        let endpoint = Endpoint::new(url, token.as_deref(), *cleartext)
            .map_err(|error| refuse("upload", error.to_string()))?;
        let has_http = cfg!(feature = "http");
        let has_tls = cfg!(feature = "https");
        let own = if has_http { TransportChoice::Http } else { TransportChoice::App };
        let choice = upload.transport.unwrap_or(own);
        if choice == TransportChoice::Http {
            let lacks = match (has_http, url.starts_with("https:")) {
                (false, _) => {
                    Some("HTTP (feature `http`): the app has to send, \"transport\": \"app\"")
                }
                (true, true) if !has_tls => Some("TLS (feature `https`)"),
                _ => None,
            };
            if let Some(lacks) = lacks {
                return Err(refuse("upload.transport", format!("this build has no {lacks}")));
            }
        }
        Ok(Some((endpoint, choice)))
    }

    /// The network and power of the device until `tracetee_set_network`.
    pub(crate) fn net(&self) -> NetState {
        let unknown =
            if cfg!(target_os = "android") { NetState::default() } else { NetState::MAINS };
        self.upload.as_ref().and_then(|upload| upload.net).unwrap_or(unknown)
    }

    /// The facts of the device that go with each capture.
    pub(crate) fn facts(&self, device: &Device) -> CaptureMeta {
        let own = record::to_json(&self.device);
        let mut facts = CaptureMeta::from_json(own.as_bytes()).unwrap_or_default();
        let os = if cfg!(target_os = "android") { "android" } else { "linux" };
        facts.merge(CaptureMeta {
            install_id: Some(device.install_id.clone()),
            app: self.app.clone(),
            version_name: self.version_name.clone(),
            process: self.process.clone(),
            version_code: device.version_code,
            api: device.api.map(u64::from),
            os: Some(os.to_owned()),
            arch: Some(std::env::consts::ARCH.to_owned()),
            agent: Some(env!("CARGO_PKG_VERSION").to_owned()),
            notes_stops: Some(true),
            ..CaptureMeta::default()
        });
        facts
    }

    /// The properties that windows are matched against.
    pub(crate) fn device(&self, install_id: String) -> Device {
        Device {
            install_id,
            version_code: self.version_code,
            api: self.api.or_else(properties::api_level),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_outside_their_limits_are_refused_by_name() {
        let with = |fields: &str| Install::from_json(&format!(r#"{{"directory": "/d"{fields}}}"#));
        assert!(with("").is_ok());
        let long = format!(r#", "device": {{"model": "{}"}}"#, "x".repeat(501));
        for (text, expected) in [
            (r#", "install_id": """#, "install_id: must have 1 to 256 bytes"),
            (r#", "public_key": "ab""#, "public_key: is not 64 hexadecimal digits (an Ed25519"),
            (&*long, "device: has more than 512 bytes"),
            (r#", "run": "0123456789abcdeg""#, "run: is not 16 hexadecimal digits"),
            (r#", "start_wait_ms": 10001"#, "start_wait_ms: 10001 is not from 0 to 10000"),
            (
                r#", "segment": {"a": ""}"#,
                "segment: has more than 4 attributes, or a name or value",
            ),
            (r#", "segment": {"a":"","b":"","c":"","d":"","e":""}"#, "segment: has more than 4"),
            (r#", "device": 5"#, "device: must be an object, not 5"),
            (r#", "upload": {"url": "ftp://x"}"#, "upload: "),
            (r#", "upload": {"url": "https://x", "transport": "me"}"#, "upload.transport: must be"),
        ] {
            let error = with(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("configuration: {expected}")), "{text}: {error}");
        }
        let error = Install::default().validate().unwrap_err().to_string();
        assert_eq!(error, "configuration: directory: must be an absolute path");
    }
}
