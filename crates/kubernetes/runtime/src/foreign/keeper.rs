//! Starting and ending the watches of kinds, as the kinds come and go.

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

use super::{Followed, ForeignChange, Served, Shared, Standing, Wanted, introduce};
use crate::Cache;

/// How often is looked for kinds that have no definition (kube-controller-manager's 30 s).
const PERIOD: Duration = Duration::from_secs(30);
/// How long a failure to look is waited out.
const RETRY: Duration = Duration::from_secs(1);

/// The one who starts and ends watches; they end when this is dropped.
pub(super) struct Keeper {
    shared: Arc<Shared>,
    running: JoinSet<()>,
    /// Kinds that have, or had, a definition. Discovery may show them for a moment after they are
    /// gone, so it is not asked about them.
    defined: BTreeSet<(String, String)>,
    /// When discovery is asked again about kinds without a definition.
    next: Instant,
}

/// What a look at a kind gives.
enum Look {
    Served(Served),
    Absent,
    /// Nothing new: it is not time to ask again.
    Unchanged,
    /// The server did not say.
    Unclear,
}

impl Keeper {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            running: JoinSet::new(),
            defined: BTreeSet::new(),
            next: Instant::now(),
        }
    }

    /// Keeps up until dropped.
    pub(super) async fn run(mut self) {
        self.shared.definitions.synced().await;
        loop {
            let clear = self.refresh().await;
            let wait = if clear { PERIOD } else { RETRY };
            tokio::select! {
                () = self.shared.look.notified() => {}
                () = tokio::time::sleep(wait) => {}
                Some(_) = self.running.join_next() => {}
            }
        }
    }

    /// Looks at every kind that somebody wants. Whether the server said of all how they stand.
    async fn refresh(&mut self) -> bool {
        let wanted: Vec<Wanted> = self.shared.state.lock().wanted.keys().cloned().collect();
        let mut clear = true;
        let due = Instant::now() >= self.next;
        if due {
            self.next = Instant::now() + PERIOD;
        }
        for wanted in wanted {
            match self.look(&wanted, due).await {
                Look::Unchanged => {}
                Look::Served(served) => self.serve(&wanted, served).await,
                Look::Absent => self.end(&wanted, Standing::Absent).await,
                Look::Unclear => clear = false,
            }
        }
        clear
    }

    async fn look(&mut self, wanted: &Wanted, due: bool) -> Look {
        let of = (wanted.group.clone(), wanted.kind.clone());
        if let Some(installed) = self.shared.installed(&wanted.group, &wanted.kind) {
            self.defined.insert(of);
            return match installed.in_served(&wanted.version) {
                Some(served) => Look::Served(served),
                None => Look::Absent,
            };
        }
        if self.defined.contains(&of) {
            return Look::Absent;
        }
        // Definitions change often; what has none does not change with them.
        if !due && !self.shared.is_unknown(wanted) {
            return Look::Unchanged;
        }
        let kind = wanted.kind();
        match discovery::pinned_kind(&self.shared.client, &kind).await {
            Ok((resource, about))
                if about.supports_operation(discovery::verbs::LIST)
                    && about.supports_operation(discovery::verbs::WATCH) =>
            {
                Look::Served(Served {
                    resource,
                    namespaced: about.scope == Scope::Namespaced,
                    definition: None,
                })
            }
            Ok(_) => {
                debug!(kind = %kind.kind, api_version = kind.api_version(), "cannot be listed and watched");
                Look::Absent
            }
            Err(kube::Error::Discovery(
                DiscoveryError::MissingKind(_) | DiscoveryError::MissingResource(_),
            )) => Look::Absent,
            Err(kube::Error::Api(status)) if status.code == 404 => Look::Absent,
            Err(error) => {
                warn!(kind = %kind.kind, api_version = kind.api_version(), %error, "cannot find out whether the kind is served; trying again");
                Look::Unclear
            }
        }
    }

    /// Follows a kind, unless it is followed as it is served.
    async fn serve(&mut self, wanted: &Wanted, served: Served) {
        let kind = wanted.kind();
        {
            let mut state = self.shared.state.lock();
            if let Some(Standing::Followed(followed)) = state.wanted.get_mut(wanted)
                && followed.served.is_same_as(&served)
            {
                let redefined = followed.served.is_redefined_by(&served);
                followed.served = served;
                if redefined {
                    for tell in &state.listeners {
                        tell(&ForeignChange::Redefined(&kind));
                    }
                }
                return;
            }
        }
        // Not absent, not for a moment: it is about to be followed, perhaps anew.
        self.end(wanted, Standing::Unknown).await;
        info!(kind = %kind.kind, api_version = kind.api_version(), "installed; following its objects");
        let followed = self.start(served);
        let mut state = self.shared.state.lock();
        for tell in &state.listeners {
            introduce(tell, &kind, &followed.cache);
        }
        state
            .wanted
            .insert(wanted.clone(), Standing::Followed(followed));
        drop(state);
        self.shared.settled.send_replace(());
    }

    fn start(&mut self, served: Served) -> Followed {
        let api: Api<DynamicObject> = Api::all_with(self.shared.client.clone(), &served.resource);
        let types = TypeMeta {
            api_version: served.resource.api_version.clone(),
            kind: served.resource.kind.clone(),
        };
        // Managed fields stay: they say who set what. Lists do not name the kind of each object.
        let (cache, running) = Cache::follow_with(api, move |object: &mut DynamicObject| {
            object.types.get_or_insert_with(|| types.clone());
        });
        let (stop, stopped) = oneshot::channel::<()>();
        let (ending, ended) = oneshot::channel();
        let told = cache.clone();
        self.running.spawn(async move {
            tokio::select! {
                () = running => {}
                _ = stopped => {}
            }
            // From here, and from nowhere else: nobody hears of an object after it is gone.
            told.end();
            // Who does not wait for it need not be told.
            let _ = ending.send(());
        });
        Followed {
            served,
            cache,
            stop,
            ended,
        }
    }

    /// Says how a kind stands that is not followed, and lets go of it if it was.
    async fn end(&mut self, wanted: &Wanted, standing: Standing) {
        let was = {
            let mut state = self.shared.state.lock();
            state.wanted.insert(wanted.clone(), standing)
        };
        if let Some(Standing::Followed(followed)) = was {
            let kind = wanted.kind();
            info!(kind = %kind.kind, api_version = kind.api_version(), "not served any more");
            drop(followed.stop);
            // An error means that it has ended by itself.
            let _ = followed.ended.await;
            for tell in &self.shared.state.lock().listeners {
                tell(&ForeignChange::Disappeared(&kind));
            }
        }
        self.shared.settled.send_replace(());
    }
}

impl Served {
    /// Whether objects of the one are objects of the other. A definition that was found only after
    /// discovery showed the kind changes nothing; one that took the place of another does.
    fn is_same_as(&self, other: &Self) -> bool {
        let replaced = match (&self.definition, &other.definition) {
            (Some(one), Some(other)) => one.metadata.uid != other.metadata.uid,
            _ => false,
        };
        self.resource == other.resource && self.namespaced == other.namespaced && !replaced
    }

    /// Whether the definition says something else. Its generation does not tell: it also grows when
    /// the definition is about to go.
    fn is_redefined_by(&self, other: &Self) -> bool {
        match (&self.definition, &other.definition) {
            (Some(one), Some(other)) => !Arc::ptr_eq(one, other) && one.spec != other.spec,
            _ => false,
        }
    }
}
