//! A store on an object store: S3, GCS, Azure, or a directory seen as one.
//!
//! Everything is written where there is nothing yet and never changed, so any number of collectors and
//! converters may work on one. What is known of a capture besides its text goes with it as metadata
//! (`tracetee`, base64 of JSON); in a directory, which a collector writes by itself, it lies beside it.

use super::local_store::sidecar_of;
use super::quarantined::Quarantined;
use anyhow::{Context, Result, anyhow, bail};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;
use object_store::{
    Attribute, Attributes, GetOptions, ObjectStore, ObjectStoreExt, PutMode, PutOptions,
};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::time::timeout;
use tracetee_fleet::object_keys::RawKey;
use tracetee_fleet::rows::{About, UNKNOWN};
use tracetee_protocol::{CaptureMeta, http};

/// Bytes of one object that is read into memory: what a collector takes.
const MAX_OBJECT_BYTES: u64 = 256 << 20;

/// Time limit of a write, beside the time that its bytes take on a slow line.
const WRITE_TIME: Duration = Duration::from_secs(10);
const SLOWEST_BYTES_PER_S: u64 = 1 << 20;
/// Time limit of a check.
const PROBE_TIME: Duration = Duration::from_secs(5);
/// Time for which uploads are refused at once after a write has failed.
const AWAY: Duration = Duration::from_secs(5);

/// A store on an object store.
#[derive(Debug, Clone)]
pub(crate) struct Objects {
    store: Arc<dyn ObjectStore>,
    prefix: ObjectPath,
    is_local: bool,
    /// Time of the last write, if it failed.
    failed: Arc<Mutex<Option<Instant>>>,
}

impl Objects {
    /// Opens `s3://bucket/prefix`, `gs://…`, `az://…` (who one is: from the environment, as the providers'
    /// own tools have it), or a directory.
    pub(crate) fn open(address: &str) -> Result<Self> {
        let Some((scheme, rest)) = address.split_once("://") else {
            return Self::open_directory(address);
        };
        if scheme == "file" {
            return Self::open_directory(rest);
        }
        if !cfg!(feature = "cloud") {
            anyhow::bail!(
                "{scheme}://: this build has no object stores; use a release, or build with `--features cloud`"
            );
        }
        // object_store has no TLS of its own; an error says that there is a provider already.
        #[cfg(feature = "cloud")]
        let _ = rustls::crypto::ring::default_provider().install_default();
        let url = address.parse().with_context(|| format!("{address} is not a URL"))?;
        let of_cloud = |name: &str| {
            ["AWS_", "GOOGLE_", "AZURE_"].iter().any(|prefix| name.starts_with(prefix))
        };
        let options = std::env::vars()
            .filter(|(name, _)| of_cloud(name))
            .map(|(name, value)| (name.to_ascii_lowercase(), value));
        let (store, prefix) = object_store::parse_url_opts(&url, options)
            .with_context(|| format!("cannot open {address}"))?;
        Ok(Self { store: Arc::from(store), prefix, is_local: false, failed: Arc::default() })
    }

    /// Returns the directory of an address that is none of an object store.
    pub(crate) fn directory(address: &str) -> Option<&Path> {
        match address.split_once("://") {
            Some(("file", path)) => Some(Path::new(path)),
            Some(_) => None,
            None => Some(Path::new(address)),
        }
    }

    fn open_directory(path: &str) -> Result<Self> {
        std::fs::create_dir_all(path).with_context(|| format!("cannot create {path}"))?;
        let store = LocalFileSystem::new_with_prefix(path)
            .with_context(|| format!("cannot open {path}"))?
            .with_fsync(true);
        let prefix = ObjectPath::default();
        Ok(Self { store: Arc::new(store), prefix, is_local: true, failed: Arc::default() })
    }

    fn at(&self, path: &str) -> Result<ObjectPath> {
        let path = if self.prefix.as_ref().is_empty() {
            path.to_owned()
        } else {
            format!("{}/{path}", self.prefix)
        };
        ObjectPath::parse(&path).with_context(|| format!("{path} is no path of an object"))
    }

    /// Writes an object where there is none. `false`: there is one.
    pub(crate) async fn put_new(
        &self,
        path: &str,
        bytes: Vec<u8>,
        meta: Option<&CaptureMeta>,
    ) -> Result<bool> {
        let mut options = PutOptions::from(PutMode::Create);
        if let Some(meta) = meta {
            let text = URL_SAFE_NO_PAD.encode(meta.to_json());
            let mut attributes = Attributes::new();
            attributes.insert(Attribute::Metadata(http::OBJECT_META.into()), text.into());
            attributes.insert(Attribute::ContentType, http::FTRACE_TEXT.into());
            options.attributes = attributes;
        }
        let limit = WRITE_TIME + Duration::from_secs(bytes.len() as u64 / SLOWEST_BYTES_PER_S);
        let at = self.at(path)?;
        let written = timeout(limit, self.store.put_opts(&at, bytes.into(), options)).await;
        let written = match written {
            Ok(Ok(_)) => Ok(true),
            Ok(Err(
                object_store::Error::AlreadyExists { .. }
                | object_store::Error::Precondition { .. },
            )) => Ok(false),
            Ok(Err(error)) => Err(error).with_context(|| format!("cannot write {path}")),
            Err(_) => Err(anyhow!("cannot write {path}: no answer within {} s", limit.as_secs())),
        };
        let failed = written.is_err().then(Instant::now);
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = failed;
        written
    }

    /// Returns why nothing can be written: the last write failed a moment ago. After that moment another one may try.
    pub(crate) fn why_away(&self) -> Option<&'static str> {
        let failed = *self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let is_away = failed.is_some_and(|at| at.elapsed() < AWAY);
        is_away.then_some("the object store does not take captures now; try again later")
    }

    /// Checks that the store answers: by a list of what is never there, which costs little. Rights to list are not needed.
    pub(crate) async fn probe(&self) -> Result<()> {
        let below = self.at("probe")?;
        let mut listed = self.store.list(Some(&below));
        let next = std::future::poll_fn(|context| listed.as_mut().poll_next(context));
        match timeout(PROBE_TIME, next).await {
            Ok(None | Some(Ok(_))) => Ok(()),
            Ok(Some(Err(error))) if format!("{error:?}").contains("AccessDenied") => Ok(()),
            Ok(Some(Err(error))) => Err(error).context("the object store refuses"),
            Err(_) => bail!("the object store does not answer within {} s", PROBE_TIME.as_secs()),
        }
    }

    /// Sets aside what was no capture, with the reason.
    pub(crate) async fn quarantine(
        &self,
        id: &str,
        reason: &str,
        meta: &CaptureMeta,
    ) -> Result<()> {
        let about =
            Quarantined { reason: reason.to_owned(), meta: meta.clone(), raw_key: None }.to_json();
        self.put_new(&format!("quarantine/{id}.json"), about.into_bytes(), None).await?;
        Ok(())
    }

    /// An object's bytes, and what is known of it.
    pub(crate) async fn get(&self, path: &str) -> Result<(Vec<u8>, CaptureMeta)> {
        let at = self.at(path)?;
        let found = self.store.get_opts(&at, GetOptions::default()).await;
        let found = found.with_context(|| format!("cannot read {path}"))?;
        if found.meta.size > MAX_OBJECT_BYTES {
            anyhow::bail!("{path} has more than {MAX_OBJECT_BYTES} bytes");
        }
        let text = found.attributes.get(&Attribute::Metadata(http::OBJECT_META.into()));
        let text = text.and_then(|text| URL_SAFE_NO_PAD.decode(text.as_bytes()).ok());
        let mut json = text;
        let bytes = found.bytes().await.with_context(|| format!("cannot read {path}"))?;
        if self.is_local && json.is_none() {
            let sidecar = sidecar_of(Path::new(path));
            let sidecar = self.at(sidecar.to_str().unwrap_or_default())?;
            if let Ok(found) = self.store.get(&sidecar).await {
                json = found.bytes().await.ok().map(|bytes| bytes.to_vec());
            }
        }
        let meta = json.and_then(|json| CaptureMeta::from_json(&json)).unwrap_or_default();
        Ok((bytes.to_vec(), meta))
    }

    /// The paths below one, as the store lists them.
    pub(crate) async fn list(&self, below: &str) -> Result<Vec<String>> {
        let below = self.at(below)?;
        let mut listed = self.store.list(Some(&below));
        let skip = if self.prefix.as_ref().is_empty() { 0 } else { self.prefix.as_ref().len() + 1 };
        let mut paths = Vec::new();
        while let Some(next) =
            std::future::poll_fn(|context| listed.as_mut().poll_next(context)).await
        {
            let path = next.context("cannot list the store")?.location.to_string();
            paths.push(path.get(skip..).unwrap_or_default().to_owned());
        }
        Ok(paths)
    }
}

/// Returns a capture's properties besides its text.
pub(crate) fn about(key: &RawKey, bytes: u64, meta: CaptureMeta) -> About {
    let app = (key.app != UNKNOWN).then(|| key.app.clone());
    let (capture_id, day, raw_key) = (key.id.clone(), key.day.clone(), key.path());
    About { capture_id, app, day, meta, bytes, raw_key }
}
