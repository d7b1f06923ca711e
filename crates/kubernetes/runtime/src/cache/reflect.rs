//! Keeping a cache current: list, watch from there, list again when the past is gone.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt as _;
use kube::api::WatchEvent;
use tracing::{debug, warn};

use super::wire::{Raw, Wire, read};
use super::{Cache, Change, Kind, revision};
use crate::Key;

/// The first wait after a failure, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(10));

/// What is filled with objects of some kind. What fills it is the same program for all kinds: compiled for
/// each of them it would be many times as large, and no faster.
pub(super) trait Filled: Send + Sync {
    /// The revision up to which everything has been seen.
    fn seen(&self) -> u64;

    /// Takes a page of the list that is being read.
    fn page(&mut self, objects: Vec<Raw>) -> Result<(), kube::Error>;

    /// Makes the pages that were taken all there is, at a revision.
    fn replace(&mut self, at: u64);

    /// Takes an object as it is now.
    fn set(&self, object: &Raw) -> Result<(), kube::Error>;

    /// Takes it that an object is gone.
    fn remove(&self, object: &Raw) -> Result<(), kube::Error>;

    /// Takes it that nothing else has changed up to a revision.
    fn reach(&self, at: u64);

    /// Takes it that the kind is not served at the moment.
    fn miss(&self);

    /// Forgets the pages of a list that did not come to its end.
    fn give_up(&mut self);
}

/// A cache that is filled, and what is done to objects before they are kept.
pub(super) struct Filling<K, T> {
    cache: Cache<K>,
    trim: T,
    pages: Vec<Arc<K>>,
}

impl<K: Kind, T: Fn(&mut K)> Filling<K, T> {
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

impl<K: Kind, T: Fn(&mut K) + Send + Sync> Filled for Filling<K, T> {
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
pub(super) async fn run(mut filled: Box<dyn Filled>, wire: Wire) {
    let mut wait = RETRY.0;
    let mut from: Option<u64> = None;
    loop {
        let result = match from {
            Some(at) => watch(&*filled, &wire, at, &mut wait).await,
            None => list(&mut *filled, &wire).await,
        };
        match result {
            Ok(at) => {
                // A server that ends watches at once, as one does that stops, is not to be stormed.
                if from.is_some() {
                    tokio::time::sleep(RETRY.0).await;
                }
                from = Some(at);
                wait = RETRY.0;
            }
            Err(error) => {
                filled.give_up();
                let url = wire.url();
                let code = match &error {
                    kube::Error::Api(status) => status.code,
                    _ => 0,
                };
                match code {
                    410 => debug!(url, "the watch is too far behind; listing again"),
                    // A kind that comes or goes; what there is afterwards is to be listed anew.
                    404 => debug!(url, "not served at the moment; trying again"),
                    _ => warn!(url, %error, "cannot follow changes; trying again"),
                }
                if code == 404 {
                    filled.miss();
                }
                from = from
                    .filter(|_| !matches!(code, 404 | 410))
                    .map(|_| filled.seen());
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(RETRY.1);
            }
        }
    }
}

/// Lists everything; the revision it was listed at.
async fn list(filled: &mut dyn Filled, wire: &Wire) -> Result<u64, kube::Error> {
    let mut token = None;
    let at = loop {
        let page = wire.page(token.as_deref()).await?;
        filled.page(page.items)?;
        token = page.metadata.continue_.filter(|token| !token.is_empty());
        if token.is_none() {
            break page.metadata.resource_version;
        }
    };
    let at = at.and_then(|at| at.parse().ok()).unwrap_or_default();
    filled.replace(at);
    Ok(at)
}

/// Follows changes until the server ends the watch; the revision it got to.
async fn watch(
    filled: &dyn Filled,
    wire: &Wire,
    from: u64,
    wait: &mut Duration,
) -> Result<u64, kube::Error> {
    let mut events = wire.watch(from).await?;
    while let Some(event) = events.try_next().await? {
        *wait = RETRY.0;
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => filled.set(&object)?,
            WatchEvent::Deleted(object) => filled.remove(&object)?,
            WatchEvent::Bookmark(bookmark) => {
                let at = bookmark.metadata.resource_version.parse();
                filled.reach(at.unwrap_or_default());
            }
            WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
        }
    }
    Ok(filled.seen())
}

impl<K: Kind> Cache<K> {
    /// The revision up to which everything has been seen.
    fn seen(&self) -> u64 {
        self.shared.progress.borrow().revision
    }

    /// Says that all objects are gone, and that there will be no others. Whoever follows changes
    /// for the cache has to have ended before.
    pub(crate) fn end(&self) {
        // First said, then done: who finds no objects can tell why.
        self.shared
            .progress
            .send_modify(|progress| progress.ended = true);
        self.publish(self.seen(), |state| state.replace(Vec::new(), u64::MAX));
    }

    /// Changes the state, tells the listeners, then those who wait.
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
