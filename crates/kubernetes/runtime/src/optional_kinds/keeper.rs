//! Starts and stops the watches of kinds as they are installed and removed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::api::DynamicObject;
use kube::core::TypeMeta;
use kube::discovery::Scope;
use kube::error::DiscoveryError;
use kube::{Api, discovery};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::{Followed, KindState, OptionalKindChange, Served, Shared, Wanted, subscribe};
use crate::Cache;

/// How often discovery is queried for kinds without a CRD (30 s, as kube-controller-manager's resource
/// sync).
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(30);
/// The wait after a failed discovery request.
const DISCOVERY_RETRY: Duration = Duration::from_secs(1);

/// Starts and stops watches; all stop when this is dropped.
pub(super) struct KindWatcher {
    shared: Arc<Shared>,
    running: JoinSet<()>,
    /// Kinds that have, or had, a CRD. Discovery may still show them for a moment after their deletion,
    /// so it is not consulted about them.
    defined: BTreeSet<(String, String)>,
    /// When discovery is next queried about kinds without a CRD.
    next: Instant,
}

/// The outcome of looking up a kind.
enum Lookup {
    Served(Served),
    Absent,
    /// The next discovery query is not due yet.
    Unchanged,
    /// The server did not answer.
    Unanswered,
}

impl KindWatcher {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            running: JoinSet::new(),
            defined: BTreeSet::new(),
            next: Instant::now(),
        }
    }

    /// Runs until dropped.
    pub(super) async fn run(mut self) {
        // Without the CRDs every custom kind would be looked up by discovery, and reported
        // absent by an API server that is just starting.
        self.shared.definitions.synced().await;
        loop {
            let clear = self.refresh().await;
            let wait = if clear {
                DISCOVERY_INTERVAL
            } else {
                DISCOVERY_RETRY
            };
            tokio::select! {
                () = self.shared.wake.notified() => {}
                () = tokio::time::sleep(wait) => {}
                // Collects finished watches; otherwise the set would grow with each
                // CRD that is installed and removed.
                Some(_) = self.running.join_next() => {}
            }
        }
    }

    /// Looks up every requested kind. Returns whether the server answered for all of them.
    async fn refresh(&mut self) -> bool {
        let wanted: Vec<Wanted> = self.shared.state.lock().wanted.keys().cloned().collect();
        let mut clear = true;
        let due = Instant::now() >= self.next;
        if due {
            self.next = Instant::now() + DISCOVERY_INTERVAL;
        }
        for wanted in wanted {
            match self.lookup(&wanted, due).await {
                Lookup::Unchanged => {}
                Lookup::Served(served) => self.serve(&wanted, served).await,
                Lookup::Absent => self.end(&wanted, KindState::Absent).await,
                Lookup::Unanswered => clear = false,
            }
        }
        clear
    }

    async fn lookup(&mut self, wanted: &Wanted, due: bool) -> Lookup {
        let of = (wanted.group.clone(), wanted.kind.clone());
        if let Some(installed) = self.shared.installed(&wanted.group, &wanted.kind) {
            self.defined.insert(of);
            return match installed.in_served(&wanted.version) {
                Some(served) => Lookup::Served(served),
                None => Lookup::Absent,
            };
        }
        // Discovery lags behind a deleted CRD. Trusting it would start a watch that ends with 404 and starts again,
        // until the aggregator has caught up.
        if self.defined.contains(&of) {
            return Lookup::Absent;
        }
        // CRDs change often; kinds without one do not change with them.
        if !due && !self.shared.is_unknown(wanted) {
            return Lookup::Unchanged;
        }
        let kind = wanted.kind();
        match discovery::pinned_kind(&self.shared.client, &kind).await {
            Ok((resource, about))
                if about.supports_operation(discovery::verbs::LIST)
                    && about.supports_operation(discovery::verbs::WATCH) =>
            {
                Lookup::Served(Served {
                    resource,
                    namespaced: about.scope == Scope::Namespaced,
                    definition: None,
                })
            }
            Ok(_) => {
                debug!(kind = %kind.kind, api_version = kind.api_version(), "kind does not support list and watch");
                Lookup::Absent
            }
            Err(kube::Error::Discovery(
                DiscoveryError::MissingKind(_) | DiscoveryError::MissingResource(_),
            )) => Lookup::Absent,
            Err(kube::Error::Api(status)) if status.code == 404 => Lookup::Absent,
            Err(error) => {
                warn!(kind = %kind.kind, api_version = kind.api_version(), %error, "discovery failed; retrying");
                Lookup::Unanswered
            }
        }
    }

    /// Watches a kind, unless it is watched already as it is served.
    async fn serve(&mut self, wanted: &Wanted, served: Served) {
        let kind = wanted.kind();
        {
            let mut state = self.shared.state.lock();
            if let Some(KindState::Followed(followed)) = state.wanted.get_mut(wanted)
                && followed.served.is_same_as(&served)
            {
                let redefined = followed.served.is_redefined_by(&served);
                followed.served = served;
                if redefined {
                    for notify in &state.listeners {
                        notify(&OptionalKindChange::Redefined(&kind));
                    }
                }
                return;
            }
        }
        // `Unknown`, not `Absent`: the kind is about to be watched again, and callers should wait for
        // that.
        self.end(wanted, KindState::Unknown).await;
        info!(kind = %kind.kind, api_version = kind.api_version(), "kind installed; starting its watch");
        let followed = self.start(served);
        let mut state = self.shared.state.lock();
        for notify in &state.listeners {
            subscribe(notify, &kind, &followed.cache);
        }
        state
            .wanted
            .insert(wanted.clone(), KindState::Followed(followed));
        drop(state);
        self.shared.settled.send_replace(());
    }

    fn start(&mut self, served: Served) -> Followed {
        let api: Api<DynamicObject> = Api::all_with(self.shared.client.clone(), &served.resource);
        let types = TypeMeta {
            api_version: served.resource.api_version.clone(),
            kind: served.resource.kind.clone(),
        };
        // Managed fields stay: governance reads field ownership. Items of a list lack `kind`.
        let (cache, running) = Cache::follow_with(api, move |object: &mut DynamicObject| {
            object.types.get_or_insert_with(|| types.clone());
        });
        let (stop, stopped) = oneshot::channel::<()>();
        let (ending, ended) = oneshot::channel();
        let closing = cache.clone();
        self.running.spawn(async move {
            tokio::select! {
                () = running => {}
                _ = stopped => {}
            }
            // Only here, after the reflector has stopped: no listener is notified of an object after
            // its deletion.
            closing.end();
            // The receiver may be dropped.
            let _ = ending.send(());
        });
        Followed {
            served,
            cache,
            stop,
            ended,
        }
    }

    /// Sets the state of a kind that is not watched, and stops its watch if there was one.
    async fn end(&mut self, wanted: &Wanted, kind_state: KindState) {
        let was = {
            let mut state = self.shared.state.lock();
            state.wanted.insert(wanted.clone(), kind_state)
        };
        if let Some(KindState::Followed(followed)) = was {
            let kind = wanted.kind();
            info!(kind = %kind.kind, api_version = kind.api_version(), "kind no longer served; watch stopped");
            drop(followed.stop);
            // An error means that it has ended by itself.
            let _ = followed.ended.await;
            for notify in &self.shared.state.lock().listeners {
                notify(&OptionalKindChange::Disappeared(&kind));
            }
        }
        self.shared.settled.send_replace(());
    }
}

impl Served {
    /// Whether both serve the same objects. A CRD found only after discovery showed the kind changes
    /// nothing; a CRD that replaced another one does.
    fn is_same_as(&self, other: &Self) -> bool {
        let replaced = match (&self.definition, &other.definition) {
            (Some(one), Some(other)) => one.metadata.uid != other.metadata.uid,
            _ => false,
        };
        self.resource == other.resource && self.namespaced == other.namespaced && !replaced
    }

    /// Whether the CRD's contents changed. `metadata.generation` does not tell: it also grows when the
    /// CRD is being deleted.
    fn is_redefined_by(&self, other: &Self) -> bool {
        match (&self.definition, &other.definition) {
            (Some(one), Some(other)) => !Arc::ptr_eq(one, other) && one.spec != other.spec,
            _ => false,
        }
    }
}
