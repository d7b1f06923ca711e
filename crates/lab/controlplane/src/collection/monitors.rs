//! Following the metadata of every kind that can be deleted, also of kinds that come and go.

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

/// How often is asked which kinds there are (kube-controller-manager's 30 s).
const PERIOD: Duration = Duration::from_secs(30);
/// How long definitions may settle before the server is asked, and how long a failure is waited out.
const SETTLE: Duration = Duration::from_millis(300);
/// How long the first lists may take; what is late is collected later.
const FIRST: Duration = Duration::from_secs(30);

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
    /// Follows what there is; returns when everything has been listed.
    pub(super) async fn start(shared: Arc<Shared>) -> Self {
        let mut monitors = Self {
            shared,
            running: JoinSet::new(),
            followed: HashMap::new(),
        };
        while !monitors.refresh().await {
            tokio::time::sleep(SETTLE).await;
        }
        let listed = join_all(monitors.followed.values().map(|one| one.cache.synced()));
        if tokio::time::timeout(FIRST, listed).await.is_err() {
            warn!("not all kinds could be listed; collecting garbage of the others");
        }
        monitors
    }

    /// Keeps up with kinds that come and go.
    pub(super) async fn run(mut self) {
        loop {
            tokio::select! {
                () = self.shared.definitions.notified() => {}
                () = tokio::time::sleep(PERIOD) => {}
            }
            // Many definitions come at once, and the server needs a moment to serve them.
            tokio::time::sleep(SETTLE).await;
            self.refresh().await;
        }
    }

    /// Asks which kinds there are. Whether there was an answer.
    async fn refresh(&mut self) -> bool {
        let kinds = match Kinds::discover(self.shared.client.clone()).await {
            Ok(kinds) => Arc::new(kinds),
            Err(error) => {
                warn!(%error, "cannot find out which kinds there are; trying again");
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

/// Events are many, live an hour and own nothing; everything else that can be followed and deleted
/// is collected.
fn is_collected(kind: &Served) -> bool {
    let is_event = kind.is("", "events") || kind.is("events.k8s.io", "events");
    kind.can(&["delete", "list", "watch"]) && !is_event
}

fn path(kind: &Served) -> String {
    format!("{}/{}", kind.resource.api_version, kind.resource.plural)
}
