//! The files of releases, wherever the policy says they are, read as rarely as possible.

use std::collections::HashMap;
use std::error::Error as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::release_migration::control::{Kept, Loaded, Trouble, TroubleKind};
use ::release_migration::payload::{METADATA, Metadata, Payload, Selection, files_of, image_of, is_kept};
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

/// How long the files of a folder are believed.
const FOLDER: Duration = Duration::from_mins(1);
/// How long those of an image that goes by a tag are.
const TAG: Duration = Duration::from_mins(10);
/// How soon is tried again what could not be read.
const AGAIN: Duration = Duration::from_mins(1);
/// The option that names folders with files of releases.
const PAYLOAD_FOLDER: &str = "--payload-folder";
/// The variable with the file of credentials for registries.
const CREDENTIALS: &str = "REGISTRY_AUTH_FILE";

/// Where the files of a release are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Place {
    Map(Key),
    Folder(PathBuf),
    Image(String),
}

/// What was found there.
struct Read {
    /// The revision of the ConfigMap.
    revision: Option<String>,
    at: Instant,
    /// Whether somebody asked for it since the last time that nobody's was forgotten.
    asked: bool,
    outcome: Result<Arc<Payload>, Trouble>,
    /// What of it a cluster gets, for the last one that asked.
    loaded: Option<(String, Selection, Arc<Loaded>)>,
}

/// The ConfigMaps where releases usually are, once the Role that allows to read them is there.
#[derive(Default)]
struct Usual {
    cache: Option<Cache<ConfigMap>>,
    /// When it was last asked whether they may be read.
    asked: Option<Instant>,
    /// Whether a release was looked for there in vain.
    missed: bool,
    /// Follows them until this is dropped.
    following: JoinSet<()>,
}

/// A ConfigMap that somebody named, outside of where they usually are.
struct Named {
    key: Key,
    cache: Cache<ConfigMap>,
    /// Follows it until this is dropped.
    _following: JoinSet<()>,
}

/// Releases.
pub(super) struct Payloads {
    client: Client,
    queue: Queue<Key>,
    maps: Mutex<Usual>,
    named: Mutex<Option<Named>>,
    read: Mutex<HashMap<Place, Read>>,
    registries: oci::Client,
    /// Where the administrator keeps files of releases.
    folders: Vec<PathBuf>,
}

impl Payloads {
    /// Follows the releases that the cluster keeps, if they may be read. `registries` reads images; folders are opened
    /// below `folders`.
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

    /// The ConfigMaps where releases usually are; nothing while they may not be read. It is asked first whether they may: a
    /// watch without the right would be refused again and again, and most clusters keep no releases and grant none.
    async fn maps(&self) -> Option<Cache<ConfigMap>> {
        {
            let mut maps = self.maps.lock();
            if let Some(cache) = &maps.cache {
                return Some(cache.clone());
            }
            if maps.asked.is_some_and(|at| at.elapsed() < AGAIN) {
                return None;
            }
            maps.asked = Some(Instant::now());
        }
        if !may_read(&self.client, &Key::new(kept::NAMESPACE, "")).await {
            return None;
        }
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), kept::NAMESPACE);
        let (cache, following) = Cache::follow(api);
        self.maps.lock().following.spawn(following);
        cache.synced().await;
        wake(&cache, &self.queue);
        self.maps.lock().cache = Some(cache.clone());
        Some(cache)
    }

    /// What the releases are that the cluster keeps. What is none is told by whoever wants it.
    pub(super) fn kept(&self) -> Vec<Kept> {
        let cache = self.maps.lock().cache.clone();
        let maps = cache.map(|it| it.list()).unwrap_or_default();
        let maps = maps.into_iter().filter(|it| is_kept(it));
        maps.filter_map(|map| {
            let text = map.data.as_ref()?.get(METADATA)?;
            let (metadata, _) = Metadata::read(text).ok()?;
            Some(Kept {
                image: image_of(&map)?.to_owned(),
                metadata,
                since: map.metadata.creation_timestamp.as_ref().map(|it| it.0),
            })
        })
        .collect()
    }

    /// The release with an image, as a cluster gets it.
    pub(super) async fn load(
        &self,
        spec: &ReleasePolicySpec,
        image: &str,
        selection: &Selection,
    ) -> Result<Arc<Loaded>, Trouble> {
        let place = self.place(spec.payload.as_ref(), image).await?;
        let map = match &place {
            Place::Map(key) => Some(self.map(key, image).await?),
            Place::Folder(_) | Place::Image(_) => None,
        };
        let revision = map
            .as_ref()
            .and_then(|it| it.metadata.resource_version.clone());
        if let Some(known) = self.known(&place, image, selection, revision.as_deref()) {
            return known;
        }
        let outcome = self.read(&place, map).await;
        let loaded = outcome.clone().map(|payload| {
            let loaded = Loaded::new(image, &payload, selection);
            Arc::new(loaded)
        });
        let kept = loaded.as_ref().ok();
        let kept = kept.map(|it| (image.to_owned(), selection.clone(), Arc::clone(it)));
        self.read.lock().insert(
            place,
            Read {
                revision,
                at: Instant::now(),
                asked: true,
                outcome,
                loaded: kept,
            },
        );
        loaded
    }

    /// What was read before and still holds.
    fn known(
        &self,
        place: &Place,
        image: &str,
        selection: &Selection,
        revision: Option<&str>,
    ) -> Option<Result<Arc<Loaded>, Trouble>> {
        let mut all = self.read.lock();
        let read = all.get_mut(place)?;
        let age = read.at.elapsed();
        let holds = match (place, &read.outcome) {
            (Place::Map(_), _) => read.revision.as_deref() == revision,
            (_, Err(_)) => age < AGAIN,
            (Place::Folder(_), Ok(_)) => age < FOLDER,
            (Place::Image(image), Ok(_)) => is_fixed(image) || age < TAG,
        };
        if !holds {
            return None;
        }
        read.asked = true;
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
        let loaded = Arc::new(Loaded::new(image, payload, selection));
        read.loaded = Some((image.to_owned(), selection.clone(), Arc::clone(&loaded)));
        Some(Ok(loaded))
    }

    /// Forgets what nobody has asked for since the last time, and says when to look again at what is not
    /// followed.
    pub(super) fn settle(&self) -> Option<Duration> {
        let mut all = self.read.lock();
        all.retain(|_, read| std::mem::take(&mut read.asked));
        let missed = std::mem::take(&mut self.maps.lock().missed);
        let waits = all.iter().filter_map(|(place, read)| match place {
            Place::Map(_) => None,
            _ if read.outcome.is_err() => Some(AGAIN),
            Place::Folder(_) => Some(FOLDER),
            Place::Image(image) => (!is_fixed(image)).then_some(TAG),
        });
        waits.chain(missed.then_some(AGAIN)).min()
    }

    /// Where the release with an image is.
    async fn place(&self, source: Option<&PayloadSource>, image: &str) -> Result<Place, Trouble> {
        let source = source.cloned().unwrap_or_default();
        if let Some(map) = source.config_map {
            return Ok(Place::Map(Key::new(&map.namespace, &map.name)));
        }
        if let Some(folder) = source.folder {
            return Ok(Place::Folder(folder.into()));
        }
        match source.image {
            Some(word) if word == PayloadSource::DESIRED => {
                return Ok(Place::Image(image.to_owned()));
            }
            Some(fixed)
                if is_fixed(&fixed) && is_fixed(image) && digest(&fixed) != digest(image) =>
            {
                return Err(Trouble {
                    kind: TroubleKind::Mismatch,
                    message: format!(
                        "spec.payload.image is {fixed}, but the cluster is on its way to {image}; {} always is the right one",
                        PayloadSource::DESIRED
                    ),
                });
            }
            Some(fixed) => return Ok(Place::Image(fixed)),
            None => {}
        }
        let Some(maps) = self.maps().await else {
            self.maps.lock().missed = true;
            return Err(Trouble {
                kind: TroubleKind::Missing,
                message: format!(
                    "the operator may not list ConfigMaps in namespace {}: apply deploy/optional/release-payloads.yaml (`medley manifests --release-payloads`), or say in spec.payload where the files of the release are",
                    kept::NAMESPACE
                ),
            });
        };
        let maps = maps.list();
        let mut maps = maps.iter().filter(|it| is_kept(it));
        let found = maps.find(|it| image_of(it) == Some(image));
        let found = found.map(|it| Place::Map(Key::of(&it.metadata)));
        found.ok_or_else(|| Trouble {
            kind: TroubleKind::Missing,
            message: format!(
                "no ConfigMap in namespace {} with the label {}={} has the annotation {}={image}; make one, or say in spec.payload where the files of the release are",
                kept::NAMESPACE,
                kept::LABEL,
                kept::LABELLED,
                kept::IMAGE
            ),
        })
    }

    /// The ConfigMap of a release.
    async fn map(&self, key: &Key, image: &str) -> Result<Arc<ConfigMap>, Trouble> {
        let usual = if key.namespace == kept::NAMESPACE {
            self.maps().await
        } else {
            None
        };
        let cache = match usual {
            Some(cache) => cache,
            None if may_read(&self.client, key).await => {
                let cache = self.follow_named(key);
                cache.synced().await;
                cache
            }
            None => {
                self.maps.lock().missed = true;
                return Err(Trouble {
                    kind: TroubleKind::Missing,
                    message: format!(
                        "the operator may not read ConfigMap {key}: grant its service account get, list and watch on it by a Role in namespace {}",
                        key.namespace
                    ),
                });
            }
        };
        let map = cache.find(key).ok_or_else(|| Trouble {
            kind: TroubleKind::Missing,
            message: format!("there is no ConfigMap {key} with the files of the release"),
        })?;
        match image_of(&map) {
            Some(other) if other != image => Err(Trouble {
                kind: TroubleKind::Mismatch,
                message: format!(
                    "ConfigMap {key} is the release {other}, but the cluster is on its way to {image}"
                ),
            }),
            _ => Ok(map),
        }
    }

    /// Follows a ConfigMap, and none that was named before.
    fn follow_named(&self, key: &Key) -> Cache<ConfigMap> {
        let mut named = self.named.lock();
        if let Some(named) = named.as_ref().filter(|it| it.key == *key) {
            return named.cache.clone();
        }
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &key.namespace);
        let (cache, running) = Cache::follow_named(api, &key.name);
        let mut following = JoinSet::new();
        following.spawn(running);
        wake(&cache, &self.queue);
        *named = Some(Named {
            key: key.clone(),
            cache: cache.clone(),
            _following: following,
        });
        cache
    }

    /// Reads the files of a release.
    async fn read(
        &self,
        place: &Place,
        map: Option<Arc<ConfigMap>>,
    ) -> Result<Arc<Payload>, Trouble> {
        let (name, files) = match (place, map) {
            (Place::Map(key), Some(map)) => (format!("ConfigMap {key}"), files_of(&map)),
            (Place::Map(key), None) => {
                return Err(unreadable(&format!("ConfigMap {key} was not read")));
            }
            (Place::Folder(path), _) => {
                let (path, folders) = (path.clone(), self.folders.clone());
                let read = tokio::task::spawn_blocking(move || {
                    let path = permitted(&path, &folders)?;
                    source::folder(&path).map_err(|error| told(&error))
                });
                let read = read.await.map_err(|error| unreadable(&error.to_string()))?;
                let found = read?;
                (found.name, found.files)
            }
            (Place::Image(image), _) => {
                let found = self.fetch(image).await?;
                (found.name, found.files)
            }
        };
        // Thousands of manifests take a while.
        let parsed = tokio::task::spawn_blocking(move || Payload::read(&name, &files));
        let parsed = parsed
            .await
            .map_err(|error| unreadable(&error.to_string()))?;
        parsed.map(Arc::new).map_err(|error| Trouble {
            kind: TroubleKind::Broken,
            message: error.to_string(),
        })
    }

    /// Reads a release from its registry, with the credentials that the operator was given.
    async fn fetch(&self, image: &str) -> Result<source::Found, Trouble> {
        // What a policy or a ClusterVersion names is in a registry: no archive is read because of it.
        let name = image.strip_prefix("docker://").unwrap_or(image);
        let reference: Reference = name.parse().map_err(|error| {
            unreadable(&format!("{image:?} is no image in a registry: {error}"))
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
        found.map_err(|error| told(&error))
    }
}

/// Whether a ConfigMap, or all of a namespace, may be listed. It is tried once: a cache would try for ever, and asking by a
/// SelfSubjectAccessReview takes a right that clusters can take away.
async fn may_read(client: &Client, key: &Key) -> bool {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), &key.namespace);
    let mut params = ListParams::default().limit(1);
    if !key.name.is_empty() {
        params = params.fields(&format!("metadata.name={}", key.name));
    }
    let listed = api.list_metadata(&params).await;
    !matches!(listed, Err(kube::Error::Api(status)) if status.code == 403)
}

fn wake(maps: &Cache<ConfigMap>, queue: &Queue<Key>) {
    let queue = queue.clone();
    maps.on_change(move |_| queue.add(super::policy_key()));
}

/// A folder that a policy names, if it is below one of the administrator's. Links are followed before it is
/// compared: one below must not lead out.
fn permitted(path: &Path, folders: &[PathBuf]) -> Result<PathBuf, Trouble> {
    let refused = || {
        let named = folders.iter().map(|it| it.display().to_string());
        let named: Vec<String> = named.collect();
        let accepted = if named.is_empty() {
            "no folder is accepted".to_owned()
        } else {
            format!("folders below {} are accepted", named.join(", "))
        };
        unreadable(&format!(
            "spec.payload.folder {} is not opened: {accepted}; {PAYLOAD_FOLDER} DIR of `medley run` names more",
            path.display()
        ))
    };
    let below = |found: &Path, folder: &PathBuf| {
        let folder = folder.canonicalize();
        folder.is_ok_and(|folder| found.starts_with(folder))
    };
    // What does not exist is refused alike, unless it would be accepted: existence is not for everybody to learn.
    match path.canonicalize() {
        Ok(found) if folders.iter().any(|it| below(&found, it)) => Ok(found),
        Err(_) if is_plain(path) && folders.iter().any(|it| path.starts_with(it)) => {
            Ok(path.to_owned())
        }
        _ => Err(refused()),
    }
}

/// Whether a path goes down only.
fn is_plain(path: &Path) -> bool {
    let mut parts = path.components();
    parts.all(|it| matches!(it, Component::RootDir | Component::Normal(_)))
}

fn unreadable(message: &str) -> Trouble {
    Trouble {
        kind: TroubleKind::Unreadable,
        message: message.to_owned(),
    }
}

/// An error with its reasons, in one line.
fn told(error: &SourceError) -> Trouble {
    let mut message = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        message = format!("{message}: {cause}");
        next = cause.source();
    }
    unreadable(&message)
}

fn digest(image: &str) -> Option<String> {
    let reference: Reference = image.parse().ok()?;
    reference.digest().map(ToString::to_string)
}

/// Whether an image is always the same one.
fn is_fixed(image: &str) -> bool {
    digest(image).is_some()
}
