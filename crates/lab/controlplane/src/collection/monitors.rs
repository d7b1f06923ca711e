//! Metadata caches of every deletable kind, including kinds added and removed at run time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use kube::Api;
use runtime::{Cache, Change};
use tokio::task::{AbortHandle, JoinSet};
use tracing::{debug, warn};

use super::Shared;
use super::node::Meta;
use crate::discovery::{Kinds, Served};

/// Interval of discovery (kube-controller-manager's 30 s).
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(30);
/// Delay between a CRD change and discovery, and after a failed discovery.
const SETTLE_DELAY: Duration = Duration::from_millis(300);
/// Timeout of the initial lists; caches that sync later are used from then on.
const INITIAL_SYNC_TIMEOUT: Duration = Duration::from_secs(30);

/// The caches of all kinds; they stop when this is dropped.
pub(super) struct Monitors {
    shared: Arc<Shared>,
    running: JoinSet<()>,
    followed: HashMap<String, Followed>,
}

struct Followed {
    kind: Arc<Served>,
    cache: Cache<Meta>,
    running: AbortHandle,
}

impl Monitors {
    /// Starts the caches; returns when all have synced.
    pub(super) async fn start(shared: Arc<Shared>) -> Self {
        let mut monitors = Self {
            shared,
            running: JoinSet::new(),
            followed: HashMap::new(),
        };
        // Nothing can be decided without discovery: the kind of an owner is resolved by it.
        while !monitors.refresh().await {
            tokio::time::sleep(SETTLE_DELAY).await;
        }
        let listed = join_all(monitors.followed.values().map(|one| one.cache.synced()));
        if tokio::time::timeout(INITIAL_SYNC_TIMEOUT, listed)
            .await
            .is_err()
        {
            warn!("not all kinds could be listed; collecting garbage of the others");
        }
        monitors
    }

    /// Follows kinds as they are added and removed.
    pub(super) async fn run(mut self) {
        loop {
            tokio::select! {
                () = self.shared.definitions.notified() => {}
                () = tokio::time::sleep(DISCOVERY_INTERVAL) => {}
            }
            // CRDs often come in groups, and the API server needs a moment to serve them.
            tokio::time::sleep(SETTLE_DELAY).await;
            self.refresh().await;
        }
    }

    /// Runs discovery; returns whether it succeeded.
    async fn refresh(&mut self) -> bool {
        let kinds = match Kinds::discover(self.shared.client.clone()).await {
            Ok(kinds) => Arc::new(kinds),
            Err(error) => {
                warn!(%error, "discovery failed; retrying");
                return false;
            }
        };
        *self.shared.kinds.write() = Arc::clone(&kinds);
        let wanted: HashMap<String, &Arc<Served>> = kinds
            .preferred()
            .iter()
            .filter(|kind| is_collected(kind))
            .map(|kind| (path(kind), kind))
            .collect();
        let stopped = self.followed.extract_if(|path, followed| {
            wanted
                .get(path)
                .is_none_or(|kind| kind.namespaced != followed.kind.namespaced)
        });
        for (path, followed) in stopped {
            debug!(path, "not served any more");
            followed.running.abort();
            self.shared.graph.lock().forget_kind(&followed.kind);
        }
        for (path, kind) in wanted {
            if !self.followed.contains_key(&path) {
                let followed = self.follow(kind);
                self.followed.insert(path, followed);
            }
        }
        true
    }

    fn follow(&mut self, kind: &Arc<Served>) -> Followed {
        let api = Api::all_with(self.shared.client.clone(), &kind.resource);
        let (cache, running) = Cache::<Meta>::follow(api);
        let defines = kind.is("apiextensions.k8s.io", "customresourcedefinitions");
        let (shared, of) = (Arc::clone(&self.shared), Arc::clone(kind));
        cache.on_change(move |change: &Change<Meta>| {
            shared.take(&of, change);
            if defines {
                shared.definitions.notify_one();
            }
        });
        Followed {
            kind: Arc::clone(kind),
            cache,
            running: self.running.spawn(running),
        }
    }
}

/// All kinds that can be watched and deleted, except events: they are many, expire after an hour
/// and own nothing.
fn is_collected(kind: &Served) -> bool {
    let is_event = kind.is("", "events") || kind.is("events.k8s.io", "events");
    kind.can(&["delete", "list", "watch"]) && !is_event
}

fn path(kind: &Served) -> String {
    format!("{}/{}", kind.resource.api_version, kind.resource.plural)
}
