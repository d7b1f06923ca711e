//! The reflector: list, watch from there, and list again when the resource version has expired.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt as _;
use kube::api::WatchEvent;
use tracing::{debug, warn};

use super::wire::{Raw, Wire, read};
use super::{Cache, Change, Kind, revision};
use crate::Key;

/// The first backoff after a failure, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(10));

/// The target of a reflector. It is a trait object so that the reflector is compiled once: compiled for
/// each kind it would be many times as large, and no faster.
pub(super) trait ReflectorTarget: Send + Sync {
    /// The resource version up to which all changes have been observed.
    fn seen(&self) -> u64;

    /// Adds a page of the list in progress.
    fn page(&mut self, objects: Vec<Raw>) -> Result<(), kube::Error>;

    /// Replaces all objects by the pages added, at a resource version.
    fn replace(&mut self, at: u64);

    /// Stores an object.
    fn set(&self, object: &Raw) -> Result<(), kube::Error>;

    /// Removes a deleted object.
    fn remove(&self, object: &Raw) -> Result<(), kube::Error>;

    /// Records that nothing else has changed up to a resource version (a bookmark).
    fn reach(&self, at: u64);

    /// Records that the kind is not served now.
    fn miss(&self);

    /// Drops the pages of an incomplete list.
    fn give_up(&mut self);
}

/// A cache as the target of a reflector; `trim` drops parts of an object before it is stored.
pub(super) struct CacheTarget<K, T> {
    cache: Cache<K>,
    trim: T,
    pages: Vec<Arc<K>>,
}

impl<K: Kind, T: Fn(&mut K)> CacheTarget<K, T> {
    pub(super) fn new(cache: Cache<K>, trim: T) -> Self {
        Self {
            cache,
            trim,
            pages: Vec::new(),
        }
    }

    fn read(&self, object: &Raw) -> Result<Arc<K>, kube::Error> {
        let mut object: K = read(object)?;
        (self.trim)(&mut object);
        Ok(Arc::new(object))
    }
}

impl<K: Kind, T: Fn(&mut K) + Send + Sync> ReflectorTarget for CacheTarget<K, T> {
    fn seen(&self) -> u64 {
        self.cache.seen()
    }

    fn page(&mut self, objects: Vec<Raw>) -> Result<(), kube::Error> {
        self.pages.reserve(objects.len());
        for object in objects {
            let object = self.read(&object)?;
            self.pages.push(object);
        }
        Ok(())
    }

    fn replace(&mut self, at: u64) {
        let objects = mem::take(&mut self.pages);
        self.cache.publish(at, |state| state.replace(objects, at));
    }

    fn set(&self, object: &Raw) -> Result<(), kube::Error> {
        let object = self.read(object)?;
        let at = revision(object.meta()).unwrap_or_default();
        let key = Key::of(object.meta());
        self.cache.publish(at, |state| {
            state.set(&key, Some(object)).into_iter().collect()
        });
        Ok(())
    }

    fn remove(&self, object: &Raw) -> Result<(), kube::Error> {
        let object: K = read(object)?;
        let at = revision(object.meta()).unwrap_or_default();
        let key = Key::of(object.meta());
        self.cache
            .publish(at, |state| state.set(&key, None).into_iter().collect());
        Ok(())
    }

    fn reach(&self, at: u64) {
        self.cache.publish(at, |_| Vec::new());
    }

    fn miss(&self) {
        let progress = &self.cache.shared.progress;
        progress.send_modify(|progress| progress.absent = true);
    }

    fn give_up(&mut self) {
        self.pages.clear();
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
                if code == 404 {
                    target.miss();
                }
                from = from
                    .filter(|_| !matches!(code, 404 | 410))
                    .map(|_| target.seen());
                tokio::time::sleep(wait).await;
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
        target.page(page.items)?;
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
        *wait = RETRY.0;
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => target.set(&object)?,
            WatchEvent::Deleted(object) => target.remove(&object)?,
            WatchEvent::Bookmark(bookmark) => {
                let at = bookmark.metadata.resource_version.parse();
                target.reach(at.unwrap_or_default());
            }
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
        self.publish(self.seen(), |state| state.replace(Vec::new(), u64::MAX));
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
                listener(change);
            }
        }
        self.shared.progress.send_modify(|progress| {
            progress.listed = true;
            progress.absent = false;
            progress.revision = progress.revision.max(at);
            progress.changes += 1;
        });
    }
}
