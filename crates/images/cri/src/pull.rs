//! One pull: choose, fetch, unpack, and then record the image.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::{TryStreamExt as _, stream};
use jiff::Timestamp;
use oci::resolve::{self, Chosen, choose_by};
use oci::{Client, Content, Credential, Image, Keyring, Secret, StoreError};
use platform::{Descriptor, Digest, MediaType, Reference, Source};
use tokio::runtime::Handle;
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::spawn_blocking;

use crate::api::{AuthConfig, ImageSpec};
use crate::error::Error;
use crate::records::Record;
use crate::snapshot::{self, Scratch, Tree, UnpackReservation};
use crate::store::{About, Store};
use crate::target::Target;

/// Upper bound of a record: enough for a thousand layers and names of usual length. It includes the
/// user and platform of the config, which have no bound of their own.
const MAX_RECORD: usize = 256 << 10;

/// What pulls need.
#[derive(Debug)]
pub(crate) struct Puller {
    pub(crate) store: Arc<Store>,
    pub(crate) client: Client,
    /// Credentials of the node, for requests without any.
    pub(crate) keyring: Arc<Keyring>,
    /// Permits to download a layer.
    pub(crate) downloads: Arc<Semaphore>,
}

/// Space reserved for downloads, until it is counted as used.
struct Reservation {
    store: Arc<Store>,
    bytes: u64,
}

impl Reservation {
    /// Measures the space used and releases the reservation. Blocking.
    fn release(mut self) {
        self.store.measure();
        self.store.quota.release(std::mem::take(&mut self.bytes));
    }
}

impl Drop for Reservation {
    /// For failed or cancelled pulls: some data may have been stored.
    fn drop(&mut self) {
        let (store, bytes) = (Arc::clone(&self.store), std::mem::take(&mut self.bytes));
        if bytes > 0 {
            std::thread::spawn(move || Self { store, bytes }.release());
        }
    }
}

/// Tells threads that the pull was cancelled.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Puller {
    /// Pulls an image for a target; returns its id. Dropping the future cancels the pull; downloads
    /// stay for a while.
    pub(crate) async fn pull(
        &self,
        spec: &ImageSpec,
        target: &Target,
        auth: Option<&AuthConfig>,
    ) -> Result<Digest, Error> {
        let reference: Reference = spec.image.parse()?;
        let name = reference.to_string();
        let keyring = match auth {
            Some(auth) => Arc::new(keyring_of(auth, &reference)),
            None => Arc::clone(&self.keyring),
        };
        let choosing = |source: resolve::Error| Error::Choose {
            image: name.clone(),
            handler: describe_target(target),
            source: Box::new(source),
        };
        let source = Source::Registry(reference.clone());
        let image = Image::open(&source, &self.client, keyring)
            .await
            .map_err(|error| choosing(error.into()))?;
        let chosen = choose_by(&image, &name, target.matcher.clone())
            .await
            .map_err(choosing)?;
        let chain = snapshot::chain_id(&chosen.config.diff_ids);
        let documents = self.documents(&image, &chosen).await;
        let documents = documents.map_err(|error| choosing(error.into()))?;
        let leased = documents
            .iter()
            .map(|document| document.digest.clone())
            .chain(
                chosen
                    .manifest
                    .layers
                    .iter()
                    .map(|layer| layer.digest.clone()),
            )
            .chain([chain.clone()])
            .collect();
        // Before anything is written: the collector may run between the first blob and the
        // record, and would take the blobs for garbage.
        let lease = self.store.lease(leased);
        let size = self.keep(&name, &documents).await?;
        // Another pull may be unpacking the same layers.
        // After the lease, before the snapshot is looked up: the second of two pulls finds the snapshot of the first
        // instead of unpacking it again.
        let guard = self.store.unpacking.lock(&chain).await;
        let reserved = match self.store.snapshots.get(&chain) {
            Some(_) => None,
            None => Some(
                self.build_snapshot(&name, &image, &chosen, &chain, guard)
                    .await?,
            ),
        };
        let record = record(&reference, spec, target, &chosen, chain, &documents, size);
        let bytes = serde_json::to_vec(&record).map_or(usize::MAX, |bytes| bytes.len());
        if bytes > MAX_RECORD {
            return Err(Error::Record {
                image: name,
                bytes,
                most: MAX_RECORD,
            });
        }
        let store = Arc::clone(&self.store);
        let added = blocking(&name, move || {
            let added = store.records.lock().add(record);
            match reserved {
                Some(reserved) => reserved.release(),
                None => store.measure(),
            }
            // From here on the record protects the content.
            drop(lease);
            added
        });
        let file = |source| Error::File {
            operation: "pulling",
            image: name.clone(),
            source,
        };
        added.await?.map_err(file)
    }

    /// The documents from the name down to the config, from the client's cache.
    async fn documents(
        &self,
        image: &Image,
        chosen: &Chosen,
    ) -> Result<Vec<Arc<Content>>, oci::Error> {
        let mut documents = vec![image.manifest(&chosen.root).await?];
        if chosen.digest != chosen.root {
            documents.push(image.manifest(&chosen.digest).await?);
        }
        documents.push(image.document(&chosen.manifest.config).await?);
        Ok(documents)
    }

    /// Stores documents; returns the size of manifest, config and layers.
    async fn keep(&self, name: &str, documents: &[Arc<Content>]) -> Result<u64, Error> {
        let (store, kept) = (Arc::clone(&self.store), documents.to_vec());
        let put = blocking(name, move || {
            kept.iter()
                .try_for_each(|document| store.blobs.put(&document.digest, &document.bytes))
        });
        put.await?.map_err(|source| of_store(name, source))?;
        let own = documents.iter().rev().take(2);
        Ok(own.map(|document| document.bytes.len() as u64).sum())
    }

    /// Downloads layers, and unpacks each as soon as it and those below it are present.
    async fn build_snapshot(
        &self,
        name: &str,
        image: &Image,
        chosen: &Chosen,
        chain: &Digest,
        guard: OwnedMutexGuard<()>,
    ) -> Result<Reservation, Error> {
        let layers: Vec<(Descriptor, Digest)> = chosen
            .layers(name)
            .map_err(|source| Error::Choose {
                image: name.to_owned(),
                handler: chosen.platform.to_string(),
                source: Box::new(source),
            })?
            .map(|(layer, diff_id)| (layer.clone(), diff_id.clone()))
            .collect();
        let reserved = self.reserve(name, image, &layers).await?;
        let (senders, receivers): (Vec<_>, Vec<_>) =
            layers.iter().map(|_| oneshot::channel::<()>()).unzip();
        let stop = Arc::new(AtomicBool::new(false));
        let _guard = StopOnDrop(Arc::clone(&stop));
        let unpacking = Unpacking {
            store: Arc::clone(&self.store),
            name: name.to_owned(),
            layers: layers.clone(),
            chain: chain.clone(),
            stop,
            _guard: guard,
        };
        let unpacked = spawn_blocking(move || unpacking.run(receivers));
        let downloads = stream::iter(layers.iter().zip(senders).map(Ok));
        // No limit here: the semaphore below is shared by all pulls. Layers are fetched at once but unpacked in
        // order, as each hides parts of those below it.
        let downloaded = downloads.try_for_each_concurrent(None, |((layer, _), done)| async {
            // The semaphore is never closed.
            let _permit = self.downloads.acquire().await;
            self.store
                .blobs
                .fetch(layer, image)
                .await
                .map_err(|source| of_store(name, source))?;
            // A dropped receiver means that unpacking has failed; its own error is reported.
            let _ = done.send(());
            Ok::<_, Error>(())
        });
        // Report a failed download first: a missing layer explains all other errors.
        downloaded.await?;
        let given_up = |_| Error::GivenUp {
            image: name.to_owned(),
        };
        unpacked.await.map_err(given_up)??;
        Ok(reserved)
    }

    /// Reserves space for missing layers.
    async fn reserve(
        &self,
        name: &str,
        image: &Image,
        layers: &[(Descriptor, Digest)],
    ) -> Result<Reservation, Error> {
        let (store, image) = (Arc::clone(&self.store), image.clone());
        let mut seen = BTreeSet::new();
        // One digest with two sizes is two downloads, of which at least one will fail.
        let unique = layers
            .iter()
            .filter(|(layer, _)| seen.insert((&layer.digest, layer.size)));
        let unique: Vec<Descriptor> = unique.map(|(layer, _)| layer.clone()).collect();
        let taken = blocking(name, move || {
            let missing = unique
                .iter()
                .map(|layer| store.blobs.missing(layer, &image));
            let bytes = missing.fold(0, u64::saturating_add);
            store.reserve_space(bytes)?;
            Ok(Reservation { store, bytes })
        });
        taken.await?.map_err(|source| Error::QuotaExceeded {
            image: name.to_owned(),
            source,
        })
    }
}

/// Runs blocking code on the blocking pool.
async fn blocking<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    spawn_blocking(work).await.map_err(|_| Error::GivenUp {
        image: name.to_owned(),
    })
}

fn of_store(name: &str, source: StoreError) -> Error {
    Error::Blob {
        image: name.to_owned(),
        source,
    }
}

/// The handler and platform for messages.
fn describe_target(target: &Target) -> String {
    if target.handler.is_empty() {
        format!("the default runtime handler ({})", target.platform)
    } else {
        format!("runtime handler {} ({})", target.handler, target.platform)
    }
}

/// Layers being unpacked in a thread of their own.
struct Unpacking {
    store: Arc<Store>,
    name: String,
    layers: Vec<(Descriptor, Digest)>,
    chain: Digest,
    stop: Arc<AtomicBool>,
    /// Held by the thread, since the pull may be cancelled before it ends.
    _guard: OwnedMutexGuard<()>,
}

impl Unpacking {
    fn file(&self, source: io::Error) -> Error {
        Error::File {
            operation: "unpacking",
            image: self.name.clone(),
            source,
        }
    }

    /// Waits for a permit to unpack.
    fn permit(&self) -> Result<OwnedSemaphorePermit, Error> {
        let wait = Arc::clone(&self.store.decoders).acquire_owned();
        let permit = Handle::current().block_on(wait);
        // The semaphore is never closed.
        permit.map_err(|_| Error::GivenUp {
            image: self.name.clone(),
        })
    }

    fn run(&self, ready: Vec<oneshot::Receiver<()>>) -> Result<(), Error> {
        let place = self.store.root().join("unpacking").join(self.chain.hash());
        let scratch = Scratch::new(place).map_err(|source| self.file(source))?;
        let rootfs = scratch.path().join("rootfs");
        let made = std::fs::create_dir(&rootfs);
        made.and_then(|()| std::fs::set_permissions(&rootfs, Permissions::from_mode(0o755)))
            .map_err(|source| self.file(source))?;
        let reservation = UnpackReservation::new(Arc::clone(&self.store));
        let spool = scratch.spool().map_err(|source| self.file(source))?;
        let mut tree =
            Tree::new(&rootfs, spool, reservation).map_err(|source| self.file(source))?;
        for ((layer, diff_id), ready) in self.layers.iter().zip(ready) {
            if ready.blocking_recv().is_err() {
                return Err(Error::GivenUp {
                    image: self.name.clone(),
                });
            }
            // After the layer has arrived, not before: with two decoders, two slow
            // downloads would otherwise stop every other pull.
            let _permit = self.permit()?;
            let path = self.store.blobs.path(&layer.digest);
            let file = File::open(path).map_err(|source| self.file(source))?;
            let applied = snapshot::apply(&mut tree, layer, diff_id, file, &self.stop);
            applied.map_err(|source| Error::Unpack {
                image: self.name.clone(),
                source: Box::new(source),
            })?;
        }
        let permit = self.permit()?;
        let (reservation, left_out) = tree.finish().map_err(|source| self.file(source))?;
        drop(permit);
        if left_out > 0 {
            tracing::warn!(image = %self.name, left_out, "devices or attributes could not be made");
        }
        let about = About {
            bytes: reservation.bytes,
            entries: reservation.entries,
            left_out,
            boot: None,
        };
        // The rename is the commit. A crash before it leaves a folder in `unpacking/`, which the next start empties.
        let added = self.store.snapshots.add(&self.chain, about, scratch);
        added.map_err(|source| self.file(source))?;
        self.store.measure();
        drop(reservation);
        let (store, chain) = (Arc::clone(&self.store), self.chain.clone());
        // The pull does not wait for the disk; see `store/snapshots.rs`.
        std::thread::spawn(move || {
            if let Err(error) = store.snapshots.mark_durable(&chain) {
                tracing::debug!(%chain, %error, "not known to be on the disk");
            }
        });
        Ok(())
    }
}

/// The record of a complete image.
fn record(
    reference: &Reference,
    spec: &ImageSpec,
    target: &Target,
    chosen: &Chosen,
    chain: Digest,
    documents: &[Arc<Content>],
    size: u64,
) -> Record {
    let mut tags = BTreeSet::new();
    // With a digest, the tag does not count.
    if reference.digest().is_none() {
        tags.insert(reference.to_string());
    }
    let digest = format!("{}@{}", reference.name(), chosen.root);
    Record {
        id: chosen.manifest.config.digest.clone(),
        handler: target.handler.clone(),
        wanted: target.platform.clone(),
        annotations: target.annotations.clone(),
        pulled_as: crate::target::name_of(reference),
        user_specified: spec.user_specified_image.clone(),
        tags,
        digests: BTreeSet::from([digest]),
        root: chosen.root.clone(),
        documents: documents
            .iter()
            .map(|document| document.digest.clone())
            .collect(),
        manifest: chosen.digest.clone(),
        config: chosen.manifest.config.digest.clone(),
        platform: chosen.platform.clone(),
        layers: chosen.manifest.layers.iter().map(recorded_layer).collect(),
        chain,
        size: size.saturating_add(chosen.manifest.size().unwrap_or(u64::MAX)),
        user: chosen.config.user.clone(),
        pulled: Timestamp::now(),
    }
}

/// The recorded part of a layer's descriptor. Annotations may have megabytes, and all records are in
/// memory.
fn recorded_layer(layer: &Descriptor) -> Descriptor {
    Descriptor {
        media_type: MediaType::default(),
        digest: layer.digest.clone(),
        size: layer.size,
        platform: None,
        artifact_type: String::new(),
        annotations: BTreeMap::new(),
    }
}

/// Credentials of a request: username and password, an identity token, both in `auth`, or a registry
/// token. They are sent only to the server they name.
fn keyring_of(auth: &AuthConfig, reference: &Reference) -> Keyring {
    let host = reference.host().as_str();
    // containerd's rules and their order (`ParseAuth` in
    // `internal/cri/server/images/image_pull.go`): credentials for another server are not an error,
    // the pull goes on without them. The registry token is ours; containerd has none.
    if !auth.server_address.is_empty() && !is_for(&auth.server_address, host) {
        return Keyring::anonymous();
    }
    let credential = if !auth.username.is_empty() {
        Credential::password(&auth.username, &auth.password)
    } else if !auth.identity_token.is_empty() {
        Credential::Identity {
            username: String::new(),
            token: Secret::new(&auth.identity_token),
        }
    } else if let Some((username, password)) = decode(&auth.auth) {
        Credential::password(username, password)
    } else if !auth.registry_token.is_empty() {
        Credential::Bearer(Secret::new(&auth.registry_token))
    } else {
        return Keyring::anonymous();
    };
    Keyring::for_host(host, credential)
}

/// Whether a server's address is that of a registry.
fn is_for(address: &str, host: &str) -> bool {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let server = rest.split('/').next().unwrap_or_default();
    let hub = |host: &str| {
        matches!(
            host,
            "docker.io" | "index.docker.io" | "registry-1.docker.io"
        )
    };
    server == host || (hub(server) && hub(host))
}

/// `user:password` in base 64; zeros at its end are not part of it.
fn decode(auth: &str) -> Option<(String, String)> {
    let bytes = STANDARD.decode(auth).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let (username, password) = text.split_once(':')?;
    let password = password.trim_matches('\0');
    Some((username.to_owned(), password.to_owned()))
}
