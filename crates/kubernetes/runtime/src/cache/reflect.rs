//! The reflector: list, watch from there, and list again when the resource version has expired.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt as _;
use kube::api::WatchEvent;
use tracing::{debug, warn};

use super::wire::{Raw, Wire, identity};
use super::{Cache, Change, Kind, Refusal, Undecodable, revision};
use crate::Key;

/// The first backoff after a failure, and the longest. client-go's longest is 30 s; a cache that is behind stops
/// every controller that reads it, and one request per kind in ten seconds is no load.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(10));

/// The target of a reflector. It is a trait object so that the reflector is compiled once: compiled for
/// each kind it would be many times as large, and no faster.
pub(super) trait ReflectorTarget: Send + Sync {
    /// The resource version up to which all changes have been observed.
    fn seen(&self) -> u64;

    /// Adds a page of the list in progress.
    fn page(&mut self, objects: Vec<Raw>);

    /// Replaces all objects by the pages added, at a resource version.
    fn replace(&mut self, at: u64);

    /// Stores an object.
    fn set(&self, object: &Raw);

    /// Removes a deleted object.
    fn remove(&self, object: &Raw);

    /// Records that nothing else has changed up to a resource version (a bookmark).
    fn reach(&self, at: u64);

    /// Records that the kind is not served now.
    fn miss(&self);

    /// Records that the server rejects the requests, and why.
    fn reject_requests(&self, why: &str);

    /// Drops the pages of an incomplete list.
    fn give_up(&mut self);
}

/// A cache as the target of a reflector; `trim` drops parts of an object before it is stored.
pub(super) struct CacheTarget<K, T> {
    cache: Cache<K>,
    trim: T,
    pages: Vec<Arc<K>>,
    undecodable: BTreeMap<Key, Undecodable>,
}

impl<K: Kind, T: Fn(&mut K)> CacheTarget<K, T> {
    pub(super) fn new(cache: Cache<K>, trim: T) -> Self {
        Self {
            cache,
            trim,
            pages: Vec::new(),
            undecodable: BTreeMap::new(),
        }
    }

    /// Decodes an object. One that cannot be decoded must not stop the reflector: the cache would list
    /// again and again, and every other object of the kind would stay as it was.
    fn read(&self, object: &Raw) -> Result<Arc<K>, Undecodable> {
        let mut decoded: K = serde_json::from_str(object.get()).map_err(|error| Undecodable {
            metadata: identity(object),
            error: error.to_string(),
        })?;
        (self.trim)(&mut decoded);
        Ok(Arc::new(decoded))
    }
}

impl<K: Kind, T: Fn(&mut K) + Send + Sync> ReflectorTarget for CacheTarget<K, T> {
    fn seen(&self) -> u64 {
        self.cache.seen()
    }

    fn page(&mut self, objects: Vec<Raw>) {
        self.pages.reserve(objects.len());
        for object in objects {
            match self.read(&object) {
                Ok(object) => self.pages.push(object),
                Err(object) => {
                    self.undecodable.insert(Key::of(&object.metadata), object);
                }
            }
        }
    }

    fn replace(&mut self, at: u64) {
        let objects = mem::take(&mut self.pages);
        let undecodable = mem::take(&mut self.undecodable);
        for object in undecodable.values() {
            self.cache.reject(object);
        }
        self.cache
            .publish(at, |state| state.replace(objects, undecodable, at));
    }

    fn set(&self, object: &Raw) {
        match self.read(object) {
            Ok(object) => {
                let at = revision(object.meta()).unwrap_or_default();
                let key = Key::of(object.meta());
                self.cache.publish(at, |state| {
                    state.set(&key, Some(object)).into_iter().collect()
                });
            }
            Err(object) => {
                self.cache.reject(&object);
                // Writers wait for this resource version, too.
                self.reach(revision(&object.metadata).unwrap_or_default());
            }
        }
    }

    fn remove(&self, object: &Raw) {
        let metadata = identity(object);
        let at = revision(&metadata).unwrap_or_default();
        let key = Key::of(&metadata);
        self.cache
            .publish(at, |state| state.set(&key, None).into_iter().collect());
    }

    fn reach(&self, at: u64) {
        self.cache.publish(at, |_| Vec::new());
    }

    fn miss(&self) {
        self.cache.refuse(Refusal::NotServed, None);
    }

    fn reject_requests(&self, why: &str) {
        self.cache.refuse(Refusal::Rejected, Some(why.to_owned()));
    }

    fn give_up(&mut self) {
        self.pages.clear();
        self.undecodable.clear();
    }
}

/// Runs until dropped.
pub(super) async fn run(mut target: Box<dyn ReflectorTarget>, wire: Wire) {
    let mut wait = RETRY.0;
    let mut from: Option<u64> = None;
    loop {
        let result = match from {
            Some(at) => watch(&*target, &wire, at, &mut wait).await,
            None => list(&mut *target, &wire).await,
        };
        match result {
            Ok(at) => {
                // Wait before watching again: a server that is shutting down ends watches at once.
                if from.is_some() {
                    tokio::time::sleep(RETRY.0).await;
                }
                from = Some(at);
                wait = RETRY.0;
            }
            Err(error) => {
                // A list that failed on its third page must not be completed by pages of the next one: they belong to
                // another resource version, and an object deleted in between would stay in the cache.
                target.give_up();
                let url = wire.url();
                let code = match &error {
                    kube::Error::Api(status) => status.code,
                    _ => 0,
                };
                match code {
                    410 => debug!(url, "resource version too old; listing again"),
                    // The CRD was created or deleted: list again afterwards.
                    404 => debug!(url, "kind not served; retrying"),
                    _ => warn!(url, %error, "watch failed; retrying"),
                }
                match &error {
                    kube::Error::Api(_) if code == 404 => target.miss(),
                    // An expired version or an overloaded server is no rejection: the next list succeeds.
                    kube::Error::Api(status) if !matches!(code, 410 | 429 | 503) => {
                        target.reject_requests(&status.message);
                    }
                    _ => {}
                }
                from = from
                    // After 404 the resource version is worthless too: a CRD that was deleted and created again has
                    // new objects, and a watch that ended before may not have delivered all deletions of the old ones.
                    .filter(|_| !matches!(code, 404 | 410))
                    .map(|_| target.seen());
                // Jitter: the watches of all kinds end together when the API server restarts.
                tokio::time::sleep(wait.mul_f64(1.0 - fastrand::f64() / 5.0)).await;
                wait = (wait * 2).min(RETRY.1);
            }
        }
    }
}

/// Lists all objects; returns the resource version of the list.
async fn list(target: &mut dyn ReflectorTarget, wire: &Wire) -> Result<u64, kube::Error> {
    let mut token = None;
    let at = loop {
        let page = wire.page(token.as_deref()).await?;
        target.page(page.items);
        token = page.metadata.continue_.filter(|token| !token.is_empty());
        if token.is_none() {
            break page.metadata.resource_version;
        }
    };
    let at = at.and_then(|at| at.parse().ok()).unwrap_or_default();
    target.replace(at);
    Ok(at)
}

/// Watches changes until the server ends the watch; returns the last resource version.
async fn watch(
    target: &dyn ReflectorTarget,
    wire: &Wire,
    from: u64,
    wait: &mut Duration,
) -> Result<u64, kube::Error> {
    let mut events = wire.watch(from).await?;
    while let Some(event) = events.try_next().await? {
        // An event proves that the server works. Resetting only when a watch ends would keep the backoff of an outage
        // for up to five minutes of healthy watching.
        *wait = RETRY.0;
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => target.set(&object),
            WatchEvent::Deleted(object) => target.remove(&object),
            WatchEvent::Bookmark(bookmark) => {
                let at = bookmark.metadata.resource_version.parse();
                target.reach(at.unwrap_or_default());
            }
            // The usual one is 410 inside a stream of status 200: the API server answers so if the version is older
            // than its watch cache. Returned as an error it takes the same path as an HTTP 410.
            WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
        }
    }
    Ok(target.seen())
}

impl<K: Kind> Cache<K> {
    /// The resource version up to which all changes have been observed.
    fn seen(&self) -> u64 {
        self.shared.progress.borrow().revision
    }

    /// Removes all objects for good because the kind is no longer served. The reflector of the cache
    /// has to have stopped before.
    pub(crate) fn end(&self) {
        // Set `ended` first: a caller that finds the cache empty can then tell why.
        self.shared
            .progress
            .send_modify(|progress| progress.ended = true);
        self.publish(self.seen(), |state| {
            state.replace(Vec::new(), BTreeMap::new(), u64::MAX)
        });
    }

    /// Records what the server answered instead of a list.
    fn refuse(&self, refusal: Refusal, why: Option<String>) {
        *self.shared.rejection.lock() = why;
        let progress = &self.shared.progress;
        progress.send_modify(|progress| progress.refusal = refusal);
    }

    /// Records an object that cannot be decoded, and notifies the listeners unless they know it already.
    fn reject(&self, object: &Undecodable) {
        let key = Key::of(&object.metadata);
        let listeners = {
            let mut state = self.shared.state.write();
            let known = state.undecodable.insert(key.clone(), object.clone());
            if known.is_some_and(|known| known.error == object.error) {
                return;
            }
            state.undecodable_listeners.clone()
        };
        warn!(object = %key, error = object.error, "cannot decode an object; ignoring its current state");
        for listener in &listeners {
            listener(object);
        }
    }

    /// Changes the state, then notifies the listeners, then the waiters: a waiter may rely on the
    /// listeners having run.
    fn publish(&self, at: u64, change: impl FnOnce(&mut super::State<K>) -> Vec<Change<K>>) {
        let (changes, listeners) = {
            let mut state = self.shared.state.write();
            let changes = change(&mut state);
            (changes, state.listeners.clone())
        };
        for change in &changes {
            for listener in &listeners {
                // Outside the state lock, so that a listener may read the cache; a key added to a queue before its
                // object is visible would be reconciled against the old state.
                listener(change);
            }
        }
        *self.shared.rejection.lock() = None;
        self.shared.progress.send_modify(|progress| {
            progress.listed = true;
            progress.refusal = Refusal::None;
            progress.revision = progress.revision.max(at);
            progress.changes += 1;
        });
    }
}
