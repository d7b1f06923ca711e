//! The calls of the image service: served here for configured handlers, else by the backend.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt as _};
use jiff::Timestamp;
use oci::{Client, Keyring};
use prost::Message as _;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tonic::Status;

use crate::api::{self, image_service as calls};
use crate::backend::Backend;
use crate::error::Error;
use crate::handlers::Handlers;
use crate::pull::Puller;
use crate::records::Record;
use crate::rpc::RawRequest;
use crate::store::{Garbage, OpenError, Store};
use crate::target::{Named, Target, handler_of};

/// How long unreferenced content is kept: a retried pull resumes its downloads.
// kubelet's image backoff ends at five minutes, so a pod that retries a failed pull comes back well within the hour.
const GARBAGE_AGE: Duration = Duration::from_hours(1);

/// How often garbage is collected.
const GC_INTERVAL: Duration = Duration::from_mins(10);

/// Images per message of a stream.
const STREAM_BATCH: usize = 64;

/// Options of a service.
#[derive(Debug)]
pub struct Options {
    /// The root folder of the store.
    pub root: PathBuf,
    /// The configured handlers.
    pub handlers: Handlers,
    /// The registry client.
    pub client: Client,
    /// Credentials for requests without any.
    pub keyring: Arc<Keyring>,
    /// The maximum size of the store in bytes.
    pub limit: Option<u64>,
    /// Concurrent layer downloads of all pulls.
    pub downloads: usize,
    /// The service for handlers that are not configured here.
    pub backend: Option<Backend>,
}

/// The image service; clones share it.
#[derive(Debug, Clone)]
pub struct Service {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    handlers: Handlers,
    store: Arc<Store>,
    puller: Puller,
    backend: Option<Backend>,
    stop: Arc<AtomicBool>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Which service answers a request.
enum Responder {
    Ours(Box<Target>),
    /// The backend: the handler is not configured here.
    Theirs,
}

impl Service {
    /// Opens the store, and drops incomplete content. Must be called within a tokio runtime: layers are
    /// verified and garbage is collected in the background.
    pub fn open(options: Options) -> Result<Self, OpenError> {
        let store = Arc::new(Store::open(&options.root, options.limit)?);
        let stop = Arc::new(AtomicBool::new(false));
        let (scrubbed, stopped) = (Arc::clone(&store), Arc::clone(&stop));
        // Not the runtime's blocking pool: the runtime would wait for it on shutdown.
        // In the background: reading all layers takes minutes, and kubelet gives the image service seconds at node
        // start. Snapshots, which containers use, are checked before.
        std::thread::spawn(move || scrubbed.scrub(&stopped));
        let collected = Arc::downgrade(&store);
        tokio::spawn(async move {
            let mut times = tokio::time::interval(GC_INTERVAL);
            loop {
                times.tick().await;
                let Some(store) = collected.upgrade() else {
                    return;
                };
                let done = spawn_blocking(move || store.collect(&Garbage::Older(GARBAGE_AGE)));
                if done.await.is_err() {
                    return;
                }
            }
        });
        let puller = Puller {
            store: Arc::clone(&store),
            client: options.client,
            keyring: options.keyring,
            downloads: Arc::new(Semaphore::new(options.downloads.max(1))),
        };
        Ok(Self {
            inner: Arc::new(Inner {
                handlers: options.handlers,
                store,
                puller,
                backend: options.backend,
                stop,
            }),
        })
    }

    pub(crate) fn backend(&self) -> Option<&Backend> {
        self.inner.backend.as_ref()
    }

    fn responder(&self, spec: &api::ImageSpec) -> Responder {
        match Target::of(spec, &self.inner.handlers) {
            Some(target) => Responder::Ours(Box::new(target)),
            None => Responder::Theirs,
        }
    }

    /// The image a request refers to, if it is in this store.
    fn find(&self, spec: &api::ImageSpec) -> Option<Record> {
        let named = Named::read(&spec.image);
        let records = self.inner.store.records.lock();
        match self.responder(spec) {
            Responder::Ours(target) => records.find(&named, Some(&target)).cloned(),
            // An id needs no handler; but a request that names a handler refers to its images.
            Responder::Theirs if handler_of(spec).is_empty() => records.find(&named, None).cloned(),
            Responder::Theirs => None,
        }
    }

    fn image_of(&self, record: &Record) -> api::Image {
        let (uid, username) = user(&record.user);
        api::Image {
            id: record.id.to_string(),
            repo_tags: record.tags.iter().cloned().collect(),
            repo_digests: record.digests.iter().cloned().collect(),
            size: record.size,
            uid: uid.map(|value| api::Int64Value { value }),
            username,
            spec: Some(api::ImageSpec {
                image: record.pulled_as.clone(),
                annotations: record.annotations.clone().into_iter().collect(),
                user_specified_image: record.user_specified.clone(),
                runtime_handler: record.handler.clone(),
                image_ref: String::new(),
            }),
            pinned: record.names().any(|name| self.inner.handlers.pins(name)),
        }
    }

    fn listed(&self, filter: Option<&api::ImageFilter>) -> Vec<api::Image> {
        let wanted = filter.and_then(|filter| filter.image.as_ref());
        let wanted = wanted.filter(|spec| **spec != api::ImageSpec::default());
        let records = self.inner.store.records.lock();
        let all = records.all().iter();
        all.filter(|record| wanted.is_none_or(|spec| passes(record, spec)))
            .map(|record| self.image_of(record))
            .collect()
    }

    /// `ListImages`: our images, then those of the backend.
    pub(crate) async fn list(
        self,
        request: RawRequest<api::ListImagesRequest>,
    ) -> Result<Bytes, Status> {
        let images = self.listed(request.message.filter.as_ref());
        let own = api::ListImagesResponse { images }.encode_to_vec();
        self.joined(own, calls::LIST_IMAGES, request.bytes).await
    }

    /// Our response followed by the backend's, which merges into one message.
    async fn joined(
        &self,
        mut own: Vec<u8>,
        path: &'static str,
        request: Bytes,
    ) -> Result<Bytes, Status> {
        if let Some(backend) = &self.inner.backend {
            // An error of the backend fails the whole call: a list without the backend's images would make kubelet's
            // garbage collector and `kubectl describe node` believe that they are gone.
            own.extend_from_slice(&backend.ask(path, request).await?);
        }
        Ok(own.into())
    }

    /// `StreamImages`: the same in several messages, none of them empty.
    pub(crate) async fn stream(
        self,
        request: RawRequest<api::ListImagesRequest>,
    ) -> Result<BoxStream<'static, Result<Bytes, Status>>, Status> {
        let images = self.listed(request.message.filter.as_ref());
        let own: Vec<Result<Bytes, Status>> = images
            .chunks(STREAM_BATCH)
            .map(|images| {
                let images = images.to_vec();
                let message = api::ListImagesResponse { images };
                Ok(message.encode_to_vec().into())
            })
            .collect();
        let own = stream::iter(own);
        let Some(backend) = &self.inner.backend else {
            return Ok(own.boxed());
        };
        let streamed = backend.stream(calls::STREAM_IMAGES, request.bytes.clone());
        if let Some(theirs) = streamed.await? {
            return Ok(own.chain(theirs).boxed());
        }
        let theirs = backend.ask(calls::LIST_IMAGES, request.bytes).await?;
        let theirs = (!theirs.is_empty()).then_some(Ok(theirs));
        Ok(own.chain(stream::iter(theirs)).boxed())
    }

    /// `ImageStatus`.
    pub(crate) async fn status(
        self,
        request: RawRequest<api::ImageStatusRequest>,
    ) -> Result<Bytes, Status> {
        let spec = request.message.image.clone().unwrap_or_default();
        let found = self.find(&spec);
        if let (None, Some(backend)) = (&found, self.fallback_backend(&spec)) {
            return backend.ask(calls::IMAGE_STATUS, request.bytes).await;
        }
        let mut info = HashMap::new();
        if let Some(record) = found.as_ref().filter(|_| request.message.verbose) {
            info.insert("info".to_owned(), self.info(record));
        }
        let image = found.map(|record| self.image_of(&record));
        Ok(api::ImageStatusResponse { image, info }
            .encode_to_vec()
            .into())
    }

    /// The backend, if it may have an image this store lacks: of another handler, or named by id.
    fn fallback_backend(&self, spec: &api::ImageSpec) -> Option<&Backend> {
        let backend = self.inner.backend.as_ref()?;
        let theirs = matches!(self.responder(spec), Responder::Theirs);
        // kubelet removes images by id alone and drops the handler, so an id that is
        // unknown here may belong to the backend.
        (theirs || Named::read(&spec.image).is_id()).then_some(backend)
    }

    /// The information shown by `crictl inspecti`.
    fn info(&self, record: &Record) -> String {
        let store = &self.inner.store;
        let config = store.blobs.read(&record.config).ok();
        let config = config.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let handler = self.inner.handlers.find(&record.handler);
        let about = store.snapshots.get(&record.chain);
        json!({
            "chainID": record.chain,
            "imageSpec": config.unwrap_or(serde_json::Value::Null),
            "runtimeHandler": record.handler,
            "snapshotter": handler.map(|handler| handler.snapshotter.as_str()),
            "wanted": record.wanted.to_string(),
            "platform": record.platform.to_string(),
            "index": record.root,
            "manifest": record.manifest,
            "config": record.config,
            "rootfs": store.snapshots.rootfs(&record.chain),
            "unpackedBytes": about.as_ref().map(|about| about.bytes),
            "leftOut": about.as_ref().map(|about| about.left_out),
            "pulled": record.pulled,
        })
        .to_string()
    }

    /// `PullImage`.
    pub(crate) async fn pull(
        self,
        request: RawRequest<api::PullImageRequest>,
    ) -> Result<Bytes, Status> {
        let spec = request.message.image.unwrap_or_default();
        if spec.image.is_empty() {
            let operation = "pulling";
            return Err(Error::Unnamed { operation }.status());
        }
        let target = match (self.responder(&spec), &self.inner.backend) {
            (Responder::Ours(target), _) => target,
            (Responder::Theirs, Some(backend)) => {
                return backend.ask(calls::PULL_IMAGE, request.bytes).await;
            }
            (Responder::Theirs, None) => {
                let error = Error::Handler {
                    name: handler_of(&spec).to_owned(),
                    known: self.inner.handlers.names(),
                    image: spec.image,
                };
                return Err(error.status());
            }
        };
        let auth = request.message.auth.as_ref();
        let pulled = self.inner.puller.pull(&spec, &target, auth).await;
        match pulled {
            Ok(id) => {
                tracing::info!(image = %spec.image, handler = %target.handler, platform = %target.platform, %id, "pulled");
                let image_ref = id.to_string();
                Ok(api::PullImageResponse { image_ref }.encode_to_vec().into())
            }
            Err(error) => {
                let status = error.status();
                tracing::warn!(image = %spec.image, handler = %target.handler, error = %status.message(), "not pulled");
                Err(status)
            }
        }
    }

    /// `RemoveImage`. Removing a missing image succeeds.
    pub(crate) async fn remove(
        self,
        request: RawRequest<api::RemoveImageRequest>,
    ) -> Result<Bytes, Status> {
        let spec = request.message.image.clone().unwrap_or_default();
        if spec.image.is_empty() {
            let operation = "removing";
            return Err(Error::Unnamed { operation }.status());
        }
        let Some(record) = self.find(&spec) else {
            return match self.fallback_backend(&spec) {
                Some(backend) => backend.ask(calls::REMOVE_IMAGE, request.bytes).await,
                // The CRI requires success for an image that does not exist (`RemoveImage` is idempotent).
                None => Ok(Bytes::new()),
            };
        };
        let store = Arc::clone(&self.inner.store);
        let removed = spawn_blocking(move || {
            let removed = store.records.lock().remove(&record.id)?;
            if let Some(record) = &removed {
                tracing::info!(id = %record.id, handler = %record.handler, "removed");
                store.collect(&Garbage::Of(record));
            }
            Ok(())
        });
        let failed = |source| {
            let operation = "removing";
            let image = spec.image.clone();
            Error::File {
                operation,
                image,
                source,
            }
            .status()
        };
        let removed = removed.await.map_err(|error| failed(error.into()))?;
        removed.map_err(failed)?;
        Ok(Bytes::new())
    }

    /// `ImageFsInfo`: our store, then the file systems of the backend. Containers are where the backend
    /// reports, or else on the file system of the store.
    pub(crate) async fn fs_info(self, request: RawRequest<api::Nothing>) -> Result<Bytes, Status> {
        let store = &self.inner.store;
        let blobs = store.blobs.complete().map_or(0, |all| all.len() as u64);
        let usage = api::FilesystemUsage {
            timestamp: i64::try_from(Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX),
            fs_id: Some(api::FilesystemIdentifier {
                mountpoint: store.root().display().to_string(),
            }),
            used_bytes: Some(api::UInt64Value {
                value: store.quota.used(),
            }),
            inodes_used: Some(api::UInt64Value {
                value: blobs.saturating_add(store.snapshots.entries()),
            }),
        };
        let container_filesystems = match self.inner.backend {
            Some(_) => Vec::new(),
            None => vec![usage.clone()],
        };
        let own = api::ImageFsInfoResponse {
            image_filesystems: vec![usage],
            container_filesystems,
        };
        self.joined(own.encode_to_vec(), calls::IMAGE_FS_INFO, request.bytes)
            .await
    }

    /// `Version`, for clients that begin with it.
    pub(crate) fn version() -> Bytes {
        api::VersionResponse {
            version: "0.1.0".to_owned(),
            runtime_name: "medley".to_owned(),
            runtime_version: env!("CARGO_PKG_VERSION").to_owned(),
            runtime_api_version: "v1".to_owned(),
        }
        .encode_to_vec()
        .into()
    }
}

/// Whether an image matches a filter: by name, or by repository if there is no tag.
fn passes(record: &Record, spec: &api::ImageSpec) -> bool {
    let handler = handler_of(spec);
    if !handler.is_empty() && handler != record.handler {
        return false;
    }
    if spec.image.is_empty() {
        return true;
    }
    match Named::read(&spec.image) {
        Named::Id(id) => record.id == id,
        Named::Invalid => false,
        Named::Reference(reference, start) => {
            let last = spec.image.rsplit('/').next().unwrap_or_default();
            if last.contains([':', '@']) {
                let name = crate::target::name_of(&reference);
                return record.names().any(|other| *other == name);
            }
            let name = reference.name();
            let is_in = |other: &String| {
                other
                    .strip_prefix(&name)
                    .is_some_and(|rest| rest.starts_with([':', '@']))
            };
            record.names().any(is_in)
                || start.is_some_and(|digits| record.id.hash().starts_with(&digits))
        }
    }
}

/// The user of an image: a number or a name. The group is ignored.
fn user(text: &str) -> (Option<i64>, String) {
    let user = text.split(':').next().unwrap_or_default();
    match user.parse() {
        Ok(uid) => (Some(uid), String::new()),
        Err(_) => (None, user.to_owned()),
    }
}
