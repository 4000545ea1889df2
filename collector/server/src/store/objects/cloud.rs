//! The objects of S3, GCS or Azure. A capture's metadata is an object's metadata (`tracetee`, base64 of JSON).
//!
//! Callers block: they are the collector's blocking threads, and the converter's. One runtime serves them all.

use crate::store::objects::cloud_client::{ANSWER_TIME, Connector, MOST_LISTED};
use crate::store::objects::{Content, Listed, MAX_OBJECT_BYTES, Objects, Shared};
use anyhow::{Context, Result, anyhow, bail};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::future::{self, Either};
use futures_util::{StreamExt, stream};
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::memory::InMemory;
use object_store::path::Path as ObjectPath;
use object_store::{
    Attribute, Attributes, GetOptions, ObjectStore, ObjectStoreScheme, PutMode, PutOptions,
    UpdateVersion,
};
use std::io;
use std::pin::pin;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracetee_protocol::{CaptureMeta, http};

/// Time limit of a write, in addition to the transfer time on a slow line.
const WRITE_TIME: Duration = Duration::from_secs(10);
const SLOWEST_BYTES_PER_S: u64 = 1 << 20;
/// Time limit of a check.
const PROBE_TIME: Duration = Duration::from_secs(5);
/// Time limit of all answers of a list, and of a deletion of many.
const ALL_TIME: Duration = Duration::from_secs(600);
/// Time limit of calls in progress when the collector stops.
const LAST_CALLS: Duration = Duration::from_secs(5);
/// Attempts to replace an object that others replace, too.
const UPDATES: u32 = 5;
/// Time for which uploads are refused at once after a write has failed.
const AWAY: Duration = Duration::from_secs(5);

static RUNTIME: LazyLock<io::Result<Runtime>> =
    LazyLock::new(|| tokio::runtime::Builder::new_multi_thread().enable_all().build());

fn runtime() -> Result<&'static Runtime> {
    RUNTIME.as_ref().map_err(|error| anyhow!("cannot start threads for the object store: {error}"))
}

/// Returns `None` if the object does not exist.
fn found<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(error) => match error.downcast_ref() {
            Some(object_store::Error::NotFound { .. }) => Ok(None),
            _ => Err(error),
        },
    }
}

/// A store of a cloud.
#[derive(Debug, Clone)]
pub(crate) struct Cloud {
    store: Arc<dyn ObjectStore>,
    prefix: ObjectPath,
    /// Time of the last write, if it failed.
    failed: Arc<Mutex<Option<Instant>>>,
    /// Closed when calls end.
    ended: Arc<Semaphore>,
}

impl Cloud {
    pub(crate) fn open(address: &str) -> Result<Self> {
        // object_store has no TLS; an error means that a provider is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let url = address.parse().with_context(|| format!("{address} is not a URL"))?;
        let of_cloud = |name: &str| {
            ["AWS_", "GOOGLE_", "AZURE_"].iter().any(|prefix| name.starts_with(prefix))
        };
        let options = std::env::vars()
            .filter(|(name, _)| of_cloud(name))
            .map(|(name, value)| (name.to_ascii_lowercase(), value));
        // `parse_url_opts` would suffice if its client followed no redirects.
        macro_rules! build {
            ($builder:ty) => {{
                let builder = <$builder>::new().with_url(address).with_http_connector(Connector);
                let builder = options.fold(builder, |builder, (name, value)| match name.parse() {
                    Ok(key) => builder.with_config(key, value),
                    Err(_) => builder,
                });
                builder.build().map(|store| Arc::new(store) as Arc<dyn ObjectStore>)
            }};
        }
        let in_address = || format!("cannot open {address}");
        let (scheme, prefix) = ObjectStoreScheme::parse(&url).with_context(in_address)?;
        let store = match scheme {
            ObjectStoreScheme::AmazonS3 => build!(AmazonS3Builder),
            ObjectStoreScheme::GoogleCloudStorage => build!(GoogleCloudStorageBuilder),
            ObjectStoreScheme::MicrosoftAzure => build!(MicrosoftAzureBuilder),
            ObjectStoreScheme::Memory => Ok(Arc::new(InMemory::new()) as _),
            _ => bail!("{address} is not a store of S3, GCS or Azure"),
        };
        let store = store.with_context(in_address)?;
        Ok(Self { store, prefix, failed: Arc::default(), ended: Arc::new(Semaphore::new(0)) })
    }

    fn block_on<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        runtime()?.block_on(async {
            // No permit is ever added: the wait ends only when the semaphore is closed.
            match future::select(pin!(self.ended.acquire()), pin!(work)).await {
                Either::Left(_) => bail!("the collector stops"),
                Either::Right((done, _)) => done,
            }
        })
    }

    fn resolve(&self, path: &str) -> Result<ObjectPath> {
        let path = if self.prefix.as_ref().is_empty() {
            path.to_owned()
        } else {
            format!("{}/{path}", self.prefix)
        };
        ObjectPath::parse(&path).with_context(|| format!("{path} is not the path of an object"))
    }

    fn write(
        &self,
        path: &str,
        bytes: Vec<u8>,
        meta: Option<&CaptureMeta>,
        mode: PutMode,
    ) -> Result<bool> {
        let mut options = PutOptions::from(mode);
        if let Some(meta) = meta {
            let text = URL_SAFE_NO_PAD.encode(meta.to_json());
            let mut attributes = Attributes::new();
            attributes.insert(Attribute::Metadata(http::OBJECT_META.into()), text.into());
            attributes.insert(Attribute::ContentType, http::FTRACE_TEXT.into());
            options.attributes = attributes;
        }
        let limit = WRITE_TIME + Duration::from_secs(bytes.len() as u64 / SLOWEST_BYTES_PER_S);
        let object = self.resolve(path)?;
        let written = self.block_on(async {
            match timeout(limit, self.store.put_opts(&object, bytes.into(), options)).await {
                Ok(Ok(_)) => Ok(true),
                Ok(Err(
                    object_store::Error::AlreadyExists { .. }
                    | object_store::Error::Precondition { .. },
                )) => Ok(false),
                Ok(Err(error)) => Err(error.into()),
                Err(_) => Err(anyhow!("no answer within {} s", limit.as_secs())),
            }
        });
        let failed = written.is_err().then(Instant::now);
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = failed;
        written
    }

    fn get_version(&self, path: &str) -> Result<(Vec<u8>, CaptureMeta, UpdateVersion)> {
        let object = self.resolve(path)?;
        let read = async {
            let in_path = || format!("cannot read {path}");
            let found = self.store.get_opts(&object, GetOptions::default()).await;
            let found = found.with_context(in_path)?;
            if found.meta.size > MAX_OBJECT_BYTES {
                bail!("{path} has more than {MAX_OBJECT_BYTES} bytes");
            }
            let text = found.attributes.get(&Attribute::Metadata(http::OBJECT_META.into()));
            let json = text.and_then(|text| URL_SAFE_NO_PAD.decode(text.as_bytes()).ok());
            let version = UpdateVersion {
                e_tag: found.meta.e_tag.clone(),
                version: found.meta.version.clone(),
            };
            let bytes = found.bytes().await.with_context(in_path)?;
            let meta = json.and_then(|json| CaptureMeta::from_json(&json)).unwrap_or_default();
            Ok((bytes.to_vec(), meta, version))
        };
        self.block_on(async {
            let late =
                || anyhow!("cannot read {path}: no answer within {} s", ANSWER_TIME.as_secs());
            timeout(ANSWER_TIME, read).await.map_err(|_| late())?
        })
    }
}

impl Objects for Cloud {
    fn put_new(&self, path: &str, bytes: Vec<u8>) -> Result<bool> {
        self.write(path, bytes, None, PutMode::Create)
    }

    fn find(&self, path: &str) -> Result<Option<Content>> {
        found(self.get_version(path).map(|(bytes, meta, _)| (bytes, meta)))
    }

    fn delete(&self, paths: &[String]) -> Result<()> {
        let paths = paths.iter().map(|path| self.resolve(path)).collect::<Result<Vec<_>>>()?;
        self.block_on(async {
            let all = stream::iter(paths.into_iter().map(Ok)).boxed();
            let mut deleted = self.store.delete_stream(all);
            let delete = async {
                loop {
                    match timeout(ANSWER_TIME, deleted.next()).await {
                        Ok(Some(Ok(_) | Err(object_store::Error::NotFound { .. }))) => {}
                        Ok(Some(Err(error))) => return Err(error).context("cannot delete objects"),
                        Ok(None) => return Ok(()),
                        Err(_) => bail!("the object store does not answer a deletion"),
                    }
                }
            };
            timeout(ALL_TIME, delete).await.context("cannot delete objects: it takes too long")?
        })
    }

    fn walk(&self, below: &str, each: &mut dyn FnMut(Listed)) -> Result<()> {
        let below = self.resolve(below)?;
        let skip = if self.prefix.as_ref().is_empty() { 0 } else { self.prefix.as_ref().len() + 1 };
        let mut all = self.block_on(async {
            let mut listed = self.store.list(Some(&below));
            let list = async {
                let mut all = Vec::new();
                loop {
                    let next = timeout(ANSWER_TIME, listed.next()).await;
                    let next = next.context("cannot list the store: no answer")?;
                    let Some(next) = next else { return Ok(all) };
                    let next = next.context("cannot list the store")?;
                    if all.len() == MOST_LISTED {
                        bail!("cannot list the store: more than {MOST_LISTED} objects");
                    }
                    let path = next.location.as_ref().get(skip..).unwrap_or_default().to_owned();
                    let modified = next.last_modified.into();
                    all.push(Listed { path, bytes: next.size, modified });
                }
            };
            timeout(ALL_TIME, list).await.context("cannot list the store: it takes too long")?
        })?;
        all.sort_unstable();
        all.into_iter().for_each(each);
        Ok(())
    }
}

impl Shared for Cloud {
    fn put_capture(&self, path: &str, bytes: Vec<u8>, meta: &CaptureMeta) -> Result<bool> {
        self.write(path, bytes, Some(meta), PutMode::Create)
    }

    fn put(&self, path: &str, bytes: Vec<u8>) -> Result<()> {
        self.write(path, bytes, None, PutMode::Overwrite).map(drop)
    }

    fn update(
        &self,
        path: &str,
        work: &mut dyn FnMut(Option<Vec<u8>>) -> Result<Vec<u8>>,
    ) -> Result<()> {
        for _ in 0..UPDATES {
            let (bytes, mode) = match found(self.get_version(path))? {
                Some((bytes, _, version)) => (Some(bytes), PutMode::Update(version)),
                None => (None, PutMode::Create),
            };
            let bytes = work(bytes)?;
            if self.write(path, bytes, None, mode)? {
                return Ok(());
            }
        }
        bail!("other processes replace {path} all the time; try again later")
    }

    fn why_away(&self) -> Option<&'static str> {
        let failed = *self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let is_away = failed.is_some_and(|at| at.elapsed() < AWAY);
        is_away.then_some("the object store does not take captures now; try again later")
    }

    fn probe(&self) -> Result<()> {
        let below = self.resolve("probe")?;
        self.block_on(async {
            let mut listed = self.store.list(Some(&below));
            match timeout(PROBE_TIME, listed.next()).await {
                Ok(None | Some(Ok(_))) => Ok(()),
                Ok(Some(Err(error))) if format!("{error:?}").contains("AccessDenied") => Ok(()),
                Ok(Some(Err(error))) => Err(error).context("the object store refuses"),
                Err(_) => {
                    bail!("the object store does not answer within {} s", PROBE_TIME.as_secs())
                }
            }
        })
    }

    fn end(&self) {
        let ended = Arc::clone(&self.ended);
        if let Ok(runtime) = runtime() {
            runtime.spawn(async move {
                tokio::time::sleep(LAST_CALLS).await;
                ended.close();
            });
        }
    }
}
