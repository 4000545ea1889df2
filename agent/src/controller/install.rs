//! What the app says once, at the start: where the agent may keep its files, who this
//! installation is, where its configuration comes from.

use super::policy::Device;
use crate::android::properties;
use crate::error::Error;
use std::collections::BTreeMap;
use std::path::PathBuf;
use tracetee_protocol::json::Limits;
use tracetee_protocol::record::RawJson;
use tracetee_protocol::{CaptureMeta, record, words};
use tracetee_uploader::{Endpoint, NetState};

record! {
    /// The arguments of `tracetee_install`.
    #[derive(Eq)]
    pub struct Install {
        /// A directory of the agent's own, in the app's private files; made where it is missing.
        /// Required.
        pub directory: PathBuf = PathBuf::new(),
        /// An id that stays for the life of the installation and says nothing about the user. Without
        /// it, the agent makes a random one and keeps it in `directory`.
        pub install_id: Option<String> = None,
        /// The app's version code.
        pub version_code: Option<u64> = None,
        /// The name of the process, for the collector: an app may have several.
        pub process: Option<String> = None,
        /// Android's API level. Default: the property `ro.build.version.sdk`.
        pub api: Option<u32> = None,
        /// A file with the remote configuration, which the agent looks at once a second. Its detached
        /// signature, where one is required, lies beside it with `.sig` added.
        pub config_file: Option<PathBuf> = None,
        /// The Ed25519 key, 64 hexadecimal digits, that must have signed every configuration.
        pub public_key: Option<String> = None,
        /// The user's consent. The last answer holds across restarts; without any, yes.
        pub consent: Option<bool> = None,
        /// The app's id (`com.example.app`), for the collector.
        pub app: Option<String> = None,
        /// The app's version as people read it, for the collector.
        pub version_name: Option<String> = None,
        /// Other facts about the device for the collector (`model` …): at most 512 bytes of JSON.
        pub device: BTreeMap<String, RawJson> = BTreeMap::new(),
        /// The destination of captures. Without it they stay on the device.
        pub upload: Option<UploadTo> = None,
    }

    /// The destination of captures, and the way to it.
    #[derive(Eq)]
    pub struct UploadTo {
        /// The collector's address, `https://host[:port][/path]`. Required.
        pub url: String = String::new(),
        /// The token that identifies the app there.
        pub token: Option<String> = None,
        /// Asks the collector for the address of each capture: presigned ones of S3.
        pub tickets: bool = false,
        /// Allows `http://` to other machines.
        pub cleartext: bool = false,
        /// The sender. Default: the agent where it is built with HTTP, else the app.
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
        /// The agent, on a thread of its own.
        Http = "http",
        /// The app, when it calls `tracetee_upload`.
        App = "app",
    }
}

/// Bytes of `device` as JSON: it goes into a header of each upload.
const MAX_DEVICE_BYTES: usize = 512;

impl Install {
    /// Reads and checks a JSON document.
    ///
    /// # Errors
    /// [`Error::Json`], or [`Error::Config`] with the field.
    pub fn from_json(text: &str) -> Result<Self, Error> {
        let install: Self = record::parse(text.as_bytes(), Limits::DEFAULT)?;
        let refuse = |field, reason: &str| Err(Error::Config { field, reason: reason.to_owned() });
        if !install.directory.is_absolute() {
            return refuse("directory", "must be an absolute path");
        }
        if install.install_id.as_ref().is_some_and(|id| id.is_empty() || id.len() > 256) {
            return refuse("install_id", "must have 1 to 256 bytes");
        }
        install.key()?;
        install.endpoint()?;
        if record::to_json(&install.device).len() > MAX_DEVICE_BYTES {
            return refuse("device", "has more than 512 bytes");
        }
        Ok(install)
    }

    /// The key as bytes.
    pub(crate) fn key(&self) -> Result<Option<[u8; 32]>, Error> {
        let Some(text) = &self.public_key else { return Ok(None) };
        let bytes = from_hex(text).and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        bytes.map(Some).ok_or(Error::Config {
            field: "public_key",
            reason: "is not 64 hexadecimal digits (an Ed25519 public key)".to_owned(),
        })
    }

    /// Where captures go, if anywhere, and who sends them.
    pub(crate) fn endpoint(&self) -> Result<Option<(Endpoint, TransportChoice)>, Error> {
        let Some(upload) = &self.upload else { return Ok(None) };
        let refuse = |field, reason: String| Error::Config { field, reason };
        let UploadTo { url, token, tickets, cleartext, .. } = upload;
        let endpoint = Endpoint::new(url, token.as_deref(), *tickets, *cleartext)
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

    /// The network and power of the device until somebody says otherwise.
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
            ..CaptureMeta::default()
        });
        facts
    }

    /// What windows are matched against.
    pub(crate) fn device(&self, install_id: String) -> Device {
        Device {
            install_id,
            version_code: self.version_code,
            api: self.api.or_else(properties::api_level),
        }
    }
}

/// Bytes from hexadecimal digits.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<_>> = text.trim().chars().map(|char| char.to_digit(16)).collect();
    let digits = digits?;
    let byte = |pair: &[u32]| match *pair {
        [high, low] => u8::try_from(high * 16 + low).ok(),
        _ => None,
    };
    digits.chunks(2).map(byte).collect()
}
