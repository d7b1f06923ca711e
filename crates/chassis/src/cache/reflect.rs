//! Keeping a cache current: list, watch from there, list again when the past is gone.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use kube::Api;
use kube::api::{ListParams, WatchEvent, WatchParams};
use tracing::{debug, warn};

use super::{Cache, Change, Kind, revision};
use crate::Key;

/// Objects a page of a list.
const PAGE: u32 = 2000;
/// Seconds until the server ends a watch; kube allows less than 295.
const WATCH: u32 = 290;
/// The first wait after a failure, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(10));

/// What of a kind is followed; everything by default.
#[derive(Debug, Clone, Default)]
pub(super) struct Selection {
    /// A field selector.
    fields: Option<String>,
    /// A label selector.
    labels: Option<String>,
}

impl Selection {
    /// What a field selector selects.
    pub(super) fn by_fields(fields: String) -> Self {
        Self {
            fields: Some(fields),
            labels: None,
        }
    }

    /// What a label selector selects.
    pub(super) fn by_labels(labels: String) -> Self {
        Self {
            fields: None,
            labels: Some(labels),
        }
    }
}

/// Runs until dropped.
pub(super) async fn run<K: Kind>(
    cache: Cache<K>,
    api: Api<K>,
    selection: Selection,
    trim: impl Fn(&mut K),
) {
    let mut wait = RETRY.0;
    let mut from: Option<u64> = None;
    loop {
        let result = match from {
            Some(at) => watch(&cache, (&api, &selection), at, &trim, &mut wait).await,
            None => list(&cache, (&api, &selection), &trim).await,
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
                let url = api.resource_url();
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
                    cache
                        .shared
                        .progress
                        .send_modify(|progress| progress.absent = true);
                }
                from = from
                    .filter(|_| !matches!(code, 404 | 410))
                    .map(|_| cache.seen());
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(RETRY.1);
            }
        }
    }
}

/// Lists everything; the revision it was listed at.
async fn list<K: Kind>(
    cache: &Cache<K>,
    (api, selection): (&Api<K>, &Selection),
    trim: &impl Fn(&mut K),
) -> Result<u64, kube::Error> {
    let mut params = ListParams {
        field_selector: selection.fields.clone(),
        label_selector: selection.labels.clone(),
        ..ListParams::default().limit(PAGE)
    };
    let mut objects = Vec::new();
    let at = loop {
        let page = api.list(&params).await?;
        let kept = page.items.into_iter().map(|object| keep(object, trim));
        objects.extend(kept);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => {
                break page
                    .metadata
                    .resource_version
                    .and_then(|at| at.parse().ok());
            }
        }
    };
    let at = at.unwrap_or_default();
    cache.publish(at, |state| state.replace(objects, at));
    Ok(at)
}

/// Follows changes until the server ends the watch; the revision it got to.
async fn watch<K: Kind>(
    cache: &Cache<K>,
    (api, selection): (&Api<K>, &Selection),
    from: u64,
    trim: &impl Fn(&mut K),
    wait: &mut Duration,
) -> Result<u64, kube::Error> {
    let params = WatchParams {
        field_selector: selection.fields.clone(),
        label_selector: selection.labels.clone(),
        ..WatchParams::default().timeout(WATCH)
    };
    let mut events = api.watch(&params, &from.to_string()).await?.boxed();
    while let Some(event) = events.try_next().await? {
        *wait = RETRY.0;
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                let at = revision(object.meta()).unwrap_or_default();
                let object = keep(object, trim);
                let key = Key::of(object.meta());
                cache.publish(at, |state| {
                    state.set(&key, Some(object)).into_iter().collect()
                });
            }
            WatchEvent::Deleted(object) => {
                let at = revision(object.meta()).unwrap_or_default();
                let key = Key::of(object.meta());
                cache.publish(at, |state| state.set(&key, None).into_iter().collect());
            }
            WatchEvent::Bookmark(bookmark) => {
                let at = bookmark
                    .metadata
                    .resource_version
                    .parse()
                    .unwrap_or_default();
                cache.publish(at, |_| Vec::new());
            }
            WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
        }
    }
    Ok(cache.seen())
}

fn keep<K: Kind>(mut object: K, trim: &impl Fn(&mut K)) -> Arc<K> {
    trim(&mut object);
    Arc::new(object)
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
