//! The served remote configuration: its file, read again for each request, and checked when it has changed.
//!
//! A document that devices would refuse is not served: the last good one stays, and one log line says why. So the file can
//! be edited while devices request it.

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_compact::{PublicKey, Signature};
use hex::FromHex;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tracetee_protocol::remote_config::{self, Document};

/// Bytes of an Ed25519 signature, and of a public key.
const SIGNATURE_BYTES: usize = 64;
const KEY_BYTES: usize = 32;

/// Checks the signature of a configuration, by a key if there is one. Returns false if it has none.
///
/// # Errors
/// When a file is unreadable, or devices would refuse the configuration.
pub fn check_signature(path: &Path, key: Option<&Path>) -> Result<bool> {
    let config = RemoteConfig::open(path, key)?;
    Ok(config.current().is_some_and(|served| served.signature.is_some()))
}

/// A configuration that devices accept.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) bytes: Vec<u8>,
    /// The signature as hexadecimal digits, if there is one.
    pub(crate) signature: Option<String>,
    pub(crate) etag: String,
    pub(crate) document: Document,
}

/// The file of the configuration, and its checked content.
#[derive(Debug)]
pub(crate) struct RemoteConfig {
    path: PathBuf,
    key: Option<PublicKey>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    served: Option<Arc<Served>>,
    /// The last logged error, which is not logged again.
    error: Option<String>,
    /// Tag of the file's content that was refused, which is not checked again.
    refused: Option<String>,
}

impl RemoteConfig {
    /// Opens a configuration, whose signature must match the key in a file, if there is one.
    ///
    /// # Errors
    /// When a file is unreadable, or devices would refuse the configuration.
    pub(crate) fn open(path: &Path, key: Option<&Path>) -> Result<Self> {
        let key = key.map(read_key).transpose()?;
        let config = Self { path: path.to_owned(), key, known: Mutex::default() };
        let (bytes, signature) = config.read()?;
        let served = config.check(bytes, &signature)?;
        config.known.lock().unwrap_or_else(PoisonError::into_inner).served = Some(Arc::new(served));
        Ok(config)
    }

    /// Returns the file's configuration, or the last good one if that is wrong.
    pub(crate) fn current(&self) -> Option<Arc<Served>> {
        let read = self.read();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let checked = read.and_then(|(bytes, signature)| {
            let etag = Some(etag(&bytes, &signature));
            if known.served.as_ref().is_some_and(|served| Some(&served.etag) == etag.as_ref()) {
                return Ok(None);
            }
            if known.refused == etag {
                bail!("{}", known.error.as_deref().unwrap_or_default());
            }
            known.refused = etag;
            self.check(bytes, &signature).map(Some)
        });
        match checked {
            Ok(new) => {
                known.error = None;
                if let Some(new) = new {
                    self.log_change(known.served.as_deref(), &new);
                    known.refused = None;
                    known.served = Some(Arc::new(new));
                }
            }
            Err(error) => {
                let error = format!("{error:#}");
                if known.error.as_ref() != Some(&error) {
                    tracing::error!("the last good configuration is served: {error}");
                    known.error = Some(error);
                }
            }
        }
        known.served.clone()
    }

    /// True if the file was found to be invalid, so an earlier version is served.
    pub(crate) fn is_refused(&self) -> bool {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).error.is_some()
    }

    fn log_change(&self, last: Option<&Served>, new: &Served) {
        let file = self.path.display().to_string();
        let is_signed = new.signature.is_some();
        let [seq, last_seq] = [Some(new), last].map(|one| one.map_or(0, |one| one.document.seq));
        tracing::info!(file, seq, is_signed, "the configuration has changed");
        if let Some(last) = last
            && (seq < last_seq || (seq == last_seq && new.bytes != last.bytes))
        {
            tracing::warn!(
                seq,
                "devices that have seq {last_seq} may keep it; raise \"seq\" with each change",
            );
        }
    }

    fn read(&self) -> Result<(Vec<u8>, Vec<u8>)> {
        let bytes = std::fs::read(&self.path)
            .with_context(|| format!("cannot read the configuration {}", self.path.display()))?;
        Ok((bytes, std::fs::read(self.signature_file()).unwrap_or_default()))
    }

    fn signature_file(&self) -> PathBuf {
        self.path.with_added_extension("sig")
    }

    /// Checks a document and its signature as devices do.
    fn check(&self, bytes: Vec<u8>, signature: &[u8]) -> Result<Served> {
        let parsed = remote_config::parse_to_serve(&bytes);
        let parsed = parsed.with_context(|| format!("{} is invalid", self.path.display()))?;
        let file = self.signature_file();
        let signed = match signature {
            [] => None,
            _ => Some(raw_signature(signature).with_context(|| {
                format!(
                    "{} is not an Ed25519 signature (64 bytes, or 128 hexadecimal digits)",
                    file.display()
                )
            })?),
        };
        if let Some(key) = &self.key {
            let signed = signed.with_context(|| format!("there is no {}", file.display()))?;
            if key.verify(&bytes, &Signature::new(signed)).is_err() {
                bail!(
                    "{} is not the signature of {} by the private key of --public-key; sign it again",
                    file.display(),
                    self.path.display()
                );
            }
        }
        Ok(Served {
            etag: etag(&bytes, signature),
            signature: signed.map(hex::encode),
            document: parsed.document,
            bytes,
        })
    }
}

/// A new signature of the same document is another answer.
fn etag(bytes: &[u8], signature: &[u8]) -> String {
    let mut hash = hmac_sha256::Hash::new();
    hash.update(bytes);
    hash.update(signature);
    format!("\"{}\"", URL_SAFE_NO_PAD.encode(hash.finalize()))
}

/// The bytes of a signature: as openssl writes them, or as digits.
fn raw_signature(signature: &[u8]) -> Option<[u8; SIGNATURE_BYTES]> {
    signature.try_into().or_else(|_| FromHex::from_hex(signature.trim_ascii())).ok()
}

/// Reads a public key as `tracetee init` writes it: 64 hexadecimal digits.
fn read_key(path: &Path) -> Result<PublicKey> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the public key {}", path.display()))?;
    let bytes = <[u8; KEY_BYTES]>::from_hex(text.trim())
        .ok()
        .with_context(|| format!("{}: expected 64 hexadecimal digits", path.display()))?;
    Ok(PublicKey::new(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ed25519_compact::{KeyPair, Seed};
    use tempfile::TempDir;

    struct Files(TempDir);

    impl Files {
        fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
            let path = self.0.path().join(name);
            std::fs::write(&path, content).unwrap();
            path
        }
    }

    #[test]
    fn a_broken_configuration_leaves_the_last_good_one() {
        let files = Files(TempDir::new().unwrap());
        let path = files.write("remote.json", r#"{"schema": 1, "seq": 1}"#);
        let config = RemoteConfig::open(&path, None).unwrap();
        let good = config.current().unwrap();
        for broken in [&b"{broken"[..], br#"{"schema": 1}"#, br#"{"schema": 1, "seq": -1}"#] {
            files.write("remote.json", broken);
            assert_eq!(config.current().unwrap().bytes, good.bytes);
            assert!(config.is_refused());
            // It is refused again, not taken for known.
            assert_eq!(config.current().unwrap().etag, good.etag);
            assert!(config.is_refused());
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(config.current().unwrap().etag, good.etag);
        files.write("remote.json", r#"{"schema": 1, "seq": 2}"#);
        assert_ne!(config.current().unwrap().etag, good.etag);
        assert!(!config.is_refused());
        files.write("remote.json.sig", "not a signature");
        assert!(config.current().unwrap().signature.is_none() && config.is_refused());
        files.write("remote.json", "{broken");
        let error = format!("{:#}", RemoteConfig::open(&path, None).unwrap_err());
        assert!(error.contains("remote.json is invalid: "), "{error}");
    }

    #[test]
    fn with_a_public_key_only_what_is_signed_is_served() {
        let files = Files(TempDir::new().unwrap());
        let pair = KeyPair::from_seed(Seed::new([7; 32]));
        let key = files.write("key.txt", hex::encode(pair.pk.as_ref()) + "\n");
        let [first, second] = [1, 2].map(|seq| format!(r#"{{"schema": 1, "seq": {seq}}}"#));
        let path = files.write("remote.json", &first);
        let open = || RemoteConfig::open(&path, Some(&key));
        assert!(format!("{:#}", open().unwrap_err()).contains("there is no "));
        files.write("remote.json.sig", pair.sk.sign(&first, None).as_ref());
        let config = open().unwrap();
        // Written, but not signed yet.
        files.write("remote.json", &second);
        assert_eq!(config.current().unwrap().bytes, first.as_bytes());
        assert!(config.is_refused());
        let signature = hex::encode(pair.sk.sign(&second, None).as_ref());
        files.write("remote.json.sig", format!("{signature}\n"));
        let served = config.current().unwrap();
        assert_eq!(
            (&*served.bytes, served.signature.as_deref()),
            (second.as_bytes(), Some(&*signature))
        );
        files.write("key.txt", "short");
        assert!(format!("{:#}", open().unwrap_err()).contains("expected 64 hexadecimal digits"));
    }
}
