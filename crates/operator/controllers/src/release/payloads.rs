//! Cache of release manifests, from the source that the policy names.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::release_migration::control::{
    LoadedRelease, PayloadFailure, PayloadFailureKind, StoredRelease,
};
use ::release_migration::payload::{
    METADATA, Metadata, Payload, Selection, files_of, image_of, is_stored,
};
use api::openshift::payloads as kept;
use api::release::{PayloadSource, ReleasePolicySpec};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ListParams;
use kube::{Api, Client};
use oci::{Keyring, Origin};
use parking_lot::Mutex;
use platform::{Reference, Source};
use runtime::{Cache, Key, Manager, Queue};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::source::{self, SourceError};

/// How long the files of a folder are cached; folders are not watched.
const FOLDER_TTL: Duration = Duration::from_mins(1);
/// How long an image with a tag is cached; an image with a digest does not expire.
// A tag of a release hardly ever moves, and a payload is a download of megabytes; ten minutes bound both.
const TAG_TTL: Duration = Duration::from_mins(10);
/// Retry interval of a source that could not be read.
const RETRY_INTERVAL: Duration = Duration::from_mins(1);
/// The flag of `medley run` that allows release folders.
const PAYLOAD_FOLDER: &str = "--payload-folder";
/// Environment variable with the path of the registry credentials.
const CREDENTIALS: &str = "REGISTRY_AUTH_FILE";

/// Source of a release.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum PayloadLocation {
    Map(Key),
    Folder(PathBuf),
    Image(String),
}

/// A cached release.
struct CachedRead {
    /// resourceVersion of the ConfigMap.
    revision: Option<String>,
    at: Instant,
    /// Whether it was used since the last [`Payloads::settle`].
    used: bool,
    outcome: Result<Arc<Payload>, PayloadFailure>,
    /// The manifests selected for a cluster, for the last image and selection.
    loaded: Option<(String, Selection, Arc<LoadedRelease>)>,
}

/// Watch of the ConfigMaps in the default namespace, once a Role allows it.
#[derive(Default)]
struct DefaultMaps {
    cache: Option<Cache<ConfigMap>>,
    /// Last check of the permission.
    checked: Option<Instant>,
    /// Whether a release was not found there.
    missed: bool,
    /// Watch task, aborted on drop.
    following: JoinSet<()>,
}

/// Watch of a ConfigMap that the policy names in another namespace.
struct Named {
    key: Key,
    cache: Cache<ConfigMap>,
    /// Watch task, aborted on drop.
    _following: JoinSet<()>,
}

/// Releases that have been read, and the watches on their sources.
pub(super) struct Payloads {
    client: Client,
    queue: Queue<Key>,
    maps: Mutex<DefaultMaps>,
    named: Mutex<Option<Named>>,
    read: Mutex<HashMap<PayloadLocation, CachedRead>>,
    registries: oci::Client,
    /// Folders that a policy may read from.
    folders: Vec<PathBuf>,
}

impl Payloads {
    /// Starts watching the releases stored in the cluster, if permitted. `registries` reads images; folders are opened
    /// only below `folders`.
    pub(super) async fn follow(
        manager: &Manager,
        queue: &Queue<Key>,
        registries: oci::Client,
        folders: Vec<PathBuf>,
    ) -> Self {
        let payloads = Self {
            client: manager.client(),
            queue: queue.clone(),
            maps: Mutex::default(),
            named: Mutex::default(),
            read: Mutex::default(),
            registries,
            folders,
        };
        payloads.maps().await;
        payloads
    }

    /// Cache of the ConfigMaps in the default namespace; `None` without permission. The permission is checked first: a
    /// watch would be forbidden again and again, and most clusters store no releases and grant none.
    async fn maps(&self) -> Option<Cache<ConfigMap>> {
        {
            let mut maps = self.maps.lock();
            if let Some(cache) = &maps.cache {
                return Some(cache.clone());
            }
            if maps.checked.is_some_and(|at| at.elapsed() < RETRY_INTERVAL) {
                return None;
            }
            // Before the request, while the lock is held: a second reconcile does not ask as well. The lock is
            // released for the request itself.
            maps.checked = Some(Instant::now());
        }
        if !may_read(&self.client, &Key::new(kept::NAMESPACE, "")).await {
            return None;
        }
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), kept::NAMESPACE);
        let (cache, following) = Cache::follow(api);
        self.maps.lock().following.spawn(following);
        cache.synced().await;
        enqueue_on_change(&cache, &self.queue);
        self.maps.lock().cache = Some(cache.clone());
        Some(cache)
    }

    /// Image and version of the releases stored in the cluster. Invalid ones are skipped; loading one reports the
    /// error.
    pub(super) fn kept(&self) -> Vec<StoredRelease> {
        let cache = self.maps.lock().cache.clone();
        let maps = cache.map(|it| it.list()).unwrap_or_default();
        let maps = maps.into_iter().filter(|it| is_stored(it));
        maps.filter_map(|map| {
            let text = map.data.as_ref()?.get(METADATA)?;
            let (metadata, _) = Metadata::read(text).ok()?;
            Some(StoredRelease {
                image: image_of(&map)?.to_owned(),
                metadata,
                since: map.metadata.creation_timestamp.as_ref().map(|it| it.0),
            })
        })
        .collect()
    }

    /// Loads the release with an image, as selected for a cluster.
    pub(super) async fn load(
        &self,
        spec: &ReleasePolicySpec,
        image: &str,
        selection: &Selection,
    ) -> Result<Arc<LoadedRelease>, PayloadFailure> {
        let place = self.place(spec.payload.as_ref(), image).await?;
        let map = match &place {
            PayloadLocation::Map(key) => Some(self.map(key, image).await?),
            PayloadLocation::Folder(_) | PayloadLocation::Image(_) => None,
        };
        let revision = map
            .as_ref()
            .and_then(|it| it.metadata.resource_version.clone());
        if let Some(known) = self.known(&place, image, selection, revision.as_deref()) {
            return known;
        }
        let outcome = self.read(&place, map).await;
        let loaded = outcome.clone().map(|payload| {
            let loaded = LoadedRelease::new(image, &payload, selection);
            Arc::new(loaded)
        });
        let kept = loaded.as_ref().ok();
        let kept = kept.map(|it| (image.to_owned(), selection.clone(), Arc::clone(it)));
        self.read.lock().insert(
            place,
            CachedRead {
                revision,
                at: Instant::now(),
                used: true,
                outcome,
                loaded: kept,
            },
        );
        loaded
    }

    /// A cached release that has not expired.
    fn known(
        &self,
        place: &PayloadLocation,
        image: &str,
        selection: &Selection,
        revision: Option<&str>,
    ) -> Option<Result<Arc<LoadedRelease>, PayloadFailure>> {
        let mut all = self.read.lock();
        let read = all.get_mut(place)?;
        let age = read.at.elapsed();
        // A ConfigMap is watched, so its resource version decides, for errors too: a broken
        // one is not parsed again until it changes.
        let holds = match (place, &read.outcome) {
            (PayloadLocation::Map(_), _) => read.revision.as_deref() == revision,
            (_, Err(_)) => age < RETRY_INTERVAL,
            (PayloadLocation::Folder(_), Ok(_)) => age < FOLDER_TTL,
            (PayloadLocation::Image(image), Ok(_)) => is_pinned(image) || age < TAG_TTL,
        };
        if !holds {
            return None;
        }
        read.used = true;
        let payload = match &read.outcome {
            Ok(payload) => payload,
            Err(trouble) => return Some(Err(trouble.clone())),
        };
        if let Some((of, selected, loaded)) = &read.loaded
            && of == image
            && selected == selection
        {
            return Some(Ok(Arc::clone(loaded)));
        }
        let loaded = Arc::new(LoadedRelease::new(image, payload, selection));
        read.loaded = Some((image.to_owned(), selection.clone(), Arc::clone(&loaded)));
        Some(Ok(loaded))
    }

    /// Evicts releases that were not used since the last call; returns when to check sources that are not watched.
    pub(super) fn settle(&self) -> Option<Duration> {
        let mut all = self.read.lock();
        all.retain(|_, read| std::mem::take(&mut read.used));
        let missed = std::mem::take(&mut self.maps.lock().missed);
        let waits = all.iter().filter_map(|(place, read)| match place {
            PayloadLocation::Map(_) => None,
            _ if read.outcome.is_err() => Some(RETRY_INTERVAL),
            PayloadLocation::Folder(_) => Some(FOLDER_TTL),
            PayloadLocation::Image(image) => (!is_pinned(image)).then_some(TAG_TTL),
        });
        waits.chain(missed.then_some(RETRY_INTERVAL)).min()
    }

    /// The source of the release with an image.
    async fn place(
        &self,
        source: Option<&PayloadSource>,
        image: &str,
    ) -> Result<PayloadLocation, PayloadFailure> {
        let source = source.cloned().unwrap_or_default();
        if let Some(map) = source.config_map {
            return Ok(PayloadLocation::Map(Key::new(&map.namespace, &map.name)));
        }
        if let Some(folder) = source.folder {
            return Ok(PayloadLocation::Folder(folder.into()));
        }
        match source.image {
            Some(value) if value == PayloadSource::DESIRED => {
                return Ok(PayloadLocation::Image(image.to_owned()));
            }
            Some(fixed)
                if is_pinned(&fixed) && is_pinned(image) && digest(&fixed) != digest(image) =>
            {
                return Err(PayloadFailure {
                    kind: PayloadFailureKind::Mismatch,
                    message: format!(
                        "spec.payload.image is {fixed}, but the cluster is upgrading to {image}; use {} to follow the cluster",
                        PayloadSource::DESIRED
                    ),
                });
            }
            Some(fixed) => return Ok(PayloadLocation::Image(fixed)),
            None => {}
        }
        let Some(maps) = self.maps().await else {
            self.maps.lock().missed = true;
            return Err(PayloadFailure {
                kind: PayloadFailureKind::Missing,
                message: format!(
                    "the operator may not list ConfigMaps in namespace {}: apply deploy/optional/release-payloads.yaml (`medley manifests --release-payloads`), or set spec.payload",
                    kept::NAMESPACE
                ),
            });
        };
        let maps = maps.list();
        let mut maps = maps.iter().filter(|it| is_stored(it));
        let found = maps.find(|it| image_of(it) == Some(image));
        let found = found.map(|it| PayloadLocation::Map(Key::of(&it.metadata)));
        found.ok_or_else(|| PayloadFailure {
            kind: PayloadFailureKind::Missing,
            message: format!(
                "no ConfigMap in namespace {} with the label {}={} has the annotation {}={image}; create one, or set spec.payload",
                kept::NAMESPACE,
                kept::LABEL,
                kept::LABELLED,
                kept::IMAGE
            ),
        })
    }

    /// The ConfigMap of a release.
    async fn map(&self, key: &Key, image: &str) -> Result<Arc<ConfigMap>, PayloadFailure> {
        let default_maps = if key.namespace == kept::NAMESPACE {
            self.maps().await
        } else {
            None
        };
        let cache = match default_maps {
            Some(cache) => cache,
            None if may_read(&self.client, key).await => {
                let cache = self.follow_named(key);
                cache.synced().await;
                cache
            }
            None => {
                self.maps.lock().missed = true;
                return Err(PayloadFailure {
                    kind: PayloadFailureKind::Missing,
                    message: format!(
                        "the operator may not read ConfigMap {key}: grant its service account get, list and watch on it by a Role in namespace {}",
                        key.namespace
                    ),
                });
            }
        };
        let map = cache.find(key).ok_or_else(|| PayloadFailure {
            kind: PayloadFailureKind::Missing,
            message: format!("ConfigMap {key} with the manifests of the release not found"),
        })?;
        match image_of(&map) {
            Some(other) if other != image => Err(PayloadFailure {
                kind: PayloadFailureKind::Mismatch,
                message: format!(
                    "ConfigMap {key} holds release {other}, but the cluster is upgrading to {image}"
                ),
            }),
            _ => Ok(map),
        }
    }

    /// Watches a ConfigMap, and stops watching the one named before.
    fn follow_named(&self, key: &Key) -> Cache<ConfigMap> {
        let mut named = self.named.lock();
        if let Some(named) = named.as_ref().filter(|it| it.key == *key) {
            return named.cache.clone();
        }
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &key.namespace);
        let (cache, running) = Cache::follow_named(api, &key.name);
        let mut following = JoinSet::new();
        following.spawn(running);
        enqueue_on_change(&cache, &self.queue);
        *named = Some(Named {
            key: key.clone(),
            cache: cache.clone(),
            _following: following,
        });
        cache
    }

    /// Reads and parses the files of a release.
    async fn read(
        &self,
        place: &PayloadLocation,
        map: Option<Arc<ConfigMap>>,
    ) -> Result<Arc<Payload>, PayloadFailure> {
        let (name, files) = match (place, map) {
            (PayloadLocation::Map(key), Some(map)) => (format!("ConfigMap {key}"), files_of(&map)),
            (PayloadLocation::Map(key), None) => {
                return Err(unreadable(&format!("ConfigMap {key} was not read")));
            }
            (PayloadLocation::Folder(path), _) => {
                let (path, folders) = (path.clone(), self.folders.clone());
                let read = tokio::task::spawn_blocking(move || {
                    let path = resolve_permitted(&path, &folders)?;
                    source::folder(&path).map_err(|error| with_causes(&error))
                });
                let read = read.await.map_err(|error| unreadable(&error.to_string()))?;
                let found = read?;
                (found.name, found.files)
            }
            (PayloadLocation::Image(image), _) => {
                let found = self.fetch(image).await?;
                (found.name, found.files)
            }
        };
        // Parsing thousands of manifests blocks for a while.
        let parsed = tokio::task::spawn_blocking(move || Payload::read(&name, &files));
        let parsed = parsed
            .await
            .map_err(|error| unreadable(&error.to_string()))?;
        parsed.map(Arc::new).map_err(|error| PayloadFailure {
            kind: PayloadFailureKind::Broken,
            message: error.to_string(),
        })
    }

    /// Reads a release from its registry, with the credentials in [`CREDENTIALS`].
    async fn fetch(&self, image: &str) -> Result<source::Found, PayloadFailure> {
        // Only registries: a policy or ClusterVersion must not make the operator open local archives.
        let name = image.strip_prefix("docker://").unwrap_or(image);
        let reference: Reference = name.parse().map_err(|error| {
            unreadable(&format!("{image:?} is not an image reference: {error}"))
        })?;
        let mut keyring = Keyring::anonymous();
        if let Some(file) = std::env::var_os(CREDENTIALS) {
            let wrong = |why: String| {
                let file = PathBuf::from(&file);
                unreadable(&format!(
                    "reading credentials from {}: {why}",
                    file.display()
                ))
            };
            let bytes = tokio::fs::read(&file).await;
            let bytes = bytes.map_err(|error| wrong(error.to_string()))?;
            let added = keyring.add_docker_config(&bytes, Origin::File);
            added.map_err(|error| wrong(error.to_string()))?;
        }
        let source = Source::Registry(reference);
        let found = source::image(&source, &self.registries, &Arc::new(keyring)).await;
        found.map_err(|error| with_causes(&error))
    }
}

/// Whether a ConfigMap, or all of a namespace, may be listed. Tried with one list: a watch would retry for ever, and
/// clusters can revoke the permission to create SelfSubjectAccessReviews.
async fn may_read(client: &Client, key: &Key) -> bool {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), &key.namespace);
    let mut params = ListParams::default().limit(1);
    if !key.name.is_empty() {
        params = params.fields(&format!("metadata.name={}", key.name));
    }
    let listed = api.list_metadata(&params).await;
    !matches!(listed, Err(kube::Error::Api(status)) if status.code == 403)
}

fn enqueue_on_change(maps: &Cache<ConfigMap>, queue: &Queue<Key>) {
    let queue = queue.clone();
    maps.on_change(move |_| queue.add(super::policy_key()));
}

/// Resolves the folder that a policy names, if it is below an allowed one. Symbolic links are resolved before the
/// comparison, so that a link cannot lead out.
fn resolve_permitted(path: &Path, folders: &[PathBuf]) -> Result<PathBuf, PayloadFailure> {
    let refused = || {
        let named = folders.iter().map(|it| it.display().to_string());
        let named: Vec<String> = named.collect();
        let accepted = if named.is_empty() {
            "no folder is accepted".to_owned()
        } else {
            format!("folders below {} are accepted", named.join(", "))
        };
        unreadable(&format!(
            "spec.payload.folder {} is not allowed: {accepted}; allow more with {PAYLOAD_FOLDER} DIR of `medley run`",
            path.display()
        ))
    };
    let below = |found: &Path, folder: &PathBuf| {
        let folder = folder.canonicalize();
        folder.is_ok_and(|folder| found.starts_with(folder))
    };
    // A missing folder is rejected like a forbidden one, unless it would be allowed: the error must not reveal which
    // paths exist.
    match path.canonicalize() {
        Ok(found) if folders.iter().any(|it| below(&found, it)) => Ok(found),
        Err(_) if is_plain(path) && folders.iter().any(|it| path.starts_with(it)) => {
            Ok(path.to_owned())
        }
        _ => Err(refused()),
    }
}

/// Whether a path is absolute or relative without `.` and `..`.
fn is_plain(path: &Path) -> bool {
    let mut parts = path.components();
    parts.all(|it| matches!(it, Component::RootDir | Component::Normal(_)))
}

fn unreadable(message: &str) -> PayloadFailure {
    PayloadFailure {
        kind: PayloadFailureKind::Unreadable,
        message: message.to_owned(),
    }
}

/// Formats an error with its causes in one line.
fn with_causes(error: &SourceError) -> PayloadFailure {
    unreadable(&oci::error_chain(error))
}

fn digest(image: &str) -> Option<String> {
    let reference: Reference = image.parse().ok()?;
    reference.digest().map(ToString::to_string)
}

/// Whether an image is pinned by digest.
fn is_pinned(image: &str) -> bool {
    digest(image).is_some()
}
