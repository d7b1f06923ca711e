//! What controllers share: the client, one cache a kind, events, and the tasks that run them.

use std::any::{Any, TypeId};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Display;
use std::hash::Hash;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::events::{self, Events};
use crate::metrics::Metrics;
use crate::reconcile::{self, Reconcile};
use crate::{Cache, Foreign, Kind, Queue, Turn};

/// How long controllers may take to bring what they have begun to its end.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs controllers; clones share everything.
#[derive(Clone)]
pub struct Manager {
    shared: Arc<Shared>,
}

/// A cache, and what is to be known of it without its type.
struct Cached {
    cache: Box<dyn Any + Send + Sync>,
    kind: String,
    is_synced: Box<dyn Fn() -> bool + Send + Sync>,
}

struct Shared {
    client: Client,
    turn: Turn,
    caches: Mutex<HashMap<TypeId, Cached>>,
    /// Tasks that are to end by themselves when all is to stop.
    workers: Mutex<JoinSet<()>>,
    /// Tasks that run for as long as anything runs.
    helpers: Mutex<JoinSet<()>>,
    events: events::Sender,
    foreign: OnceLock<Foreign>,
    metrics: Metrics,
    stopping: watch::Sender<bool>,
}

impl Manager {
    /// A manager of nothing yet, alone in the cluster. Call within a runtime.
    pub fn new(client: Client) -> Self {
        Self::in_turn(client, Turn::always())
    }

    /// A manager whose controllers see everything at any time, and work when it is their turn. Nothing that
    /// is done with its client writes at another time.
    pub fn in_turn(client: Client, turn: Turn) -> Self {
        let client = turn.fence(client);
        let (events, recording) = events::recorder(client.clone());
        let mut helpers = JoinSet::new();
        helpers.spawn(recording);
        Self {
            shared: Arc::new(Shared {
                client,
                metrics: Metrics::new(turn.clone()),
                turn,
                caches: Mutex::default(),
                workers: Mutex::default(),
                helpers: Mutex::new(helpers),
                events,
                foreign: OnceLock::new(),
                stopping: watch::Sender::new(false),
            }),
        }
    }

    /// Whether controllers may work.
    pub fn turn(&self) -> &Turn {
        &self.shared.turn
    }

    /// The client everything is done with.
    pub fn client(&self) -> Client {
        self.shared.client.clone()
    }

    /// The objects of a kind, in all namespaces. The first who asks starts the watch.
    pub fn cache<K: Kind<DynamicType = ()>>(&self) -> Cache<K> {
        self.cache_with(|object: &mut K| object.meta_mut().managed_fields = None)
    }

    /// The same, with a say in what is kept of an object, for kinds whose objects are large and many. The
    /// first who asks has the say.
    pub fn cache_with<K: Kind<DynamicType = ()>>(
        &self,
        trim: impl Fn(&mut K) + Send + Sync + 'static,
    ) -> Cache<K> {
        let mut caches = self.shared.caches.lock();
        let known = caches.get(&TypeId::of::<K>());
        if let Some(cache) = known.and_then(|known| known.cache.downcast_ref::<Cache<K>>()) {
            return cache.clone();
        }
        let (cache, running) = Cache::follow_with(Api::all(self.client()), trim);
        self.shared.helpers.lock().spawn(running);
        let asked = cache.clone();
        let cached = Cached {
            cache: Box::new(cache.clone()),
            kind: K::kind(&()).into_owned(),
            is_synced: Box::new(move || asked.is_synced() || asked.is_absent()),
        };
        caches.insert(TypeId::of::<K>(), cached);
        cache
    }

    /// The kinds whose objects have not all been listed yet, by name. One that is not installed has none.
    pub fn unsynced(&self) -> BTreeSet<String> {
        let caches = self.shared.caches.lock();
        let mut kinds: BTreeSet<String> = caches
            .values()
            .filter(|cached| !(cached.is_synced)())
            .map(|cached| cached.kind.clone())
            .collect();
        if let Some(foreign) = self.shared.foreign.get() {
            kinds.extend(foreign.unsynced());
        }
        kinds
    }

    /// Kinds that may not be installed. The first who asks has their definitions followed.
    pub fn foreign(&self) -> &Foreign {
        self.shared.foreign.get_or_init(|| {
            let (foreign, keeping) = Foreign::new(self.client(), self.cache());
            self.spawn(keeping);
            foreign
        })
    }

    /// Numbers about the work.
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// Reports events in the name of a component.
    pub fn events(&self, component: &'static str) -> Events {
        Events::new(component, self.shared.events.clone())
    }

    /// Runs a task until everything stops; it may be ended at any await.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.shared.helpers.lock().spawn(task);
    }

    /// Starts a controller with so many workers, who begin when it is their turn. Its caches should have been
    /// [synced](Cache::synced).
    pub fn start<T, C>(&self, controller: C, queue: &Queue<T>, workers: usize)
    where
        T: Hash + Eq + Clone + Display + Send + Sync + 'static,
        C: Reconcile<T>,
    {
        let work = self.metrics().controller(controller.name(), queue);
        let controller = Arc::new(controller);
        let mut tasks = self.shared.workers.lock();
        for _ in 0..workers {
            tasks.spawn(reconcile::work(
                Arc::clone(&controller),
                queue.clone(),
                work.clone(),
                self.shared.turn.clone(),
                self.shared.stopping.subscribe(),
            ));
        }
    }

    /// Stops everything: what has been begun may end, nothing is begun any more.
    pub async fn stop(&self) {
        self.shared.stopping.send_replace(true);
        let mut workers = std::mem::take(&mut *self.shared.workers.lock());
        let ended = tokio::time::timeout(PATIENCE, async {
            while workers.join_next().await.is_some() {}
        });
        if ended.await.is_err() {
            workers.shutdown().await;
        }
        let mut helpers = std::mem::take(&mut *self.shared.helpers.lock());
        helpers.shutdown().await;
    }
}
