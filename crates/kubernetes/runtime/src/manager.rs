//! The manager: the client, one cache per kind, the event recorder, and the tasks of the controllers.

use std::any::{Any, TypeId};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Display;
use std::hash::Hash;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kube::core::PartialObjectMeta;
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::events::{self, Events};
use crate::metrics::Metrics;
use crate::reconcile::{self, Reconcile};
use crate::{Backoff, Cache, Kind, OptionalKinds, Queue, WriteFence};

/// How long [`Manager::stop`] waits for running reconciles before it aborts them.
// A pod has 30 seconds between SIGTERM and SIGKILL by default. Five leave enough to release the lease, which lets the
// next leader start at once.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// The component of events that the runtime itself emits.
pub const COMPONENT: &str = "medley";
/// The reason of the event about an object that cannot be decoded.
pub const UNDECODABLE: &str = "Undecodable";

/// Runs controllers; clones share the caches and tasks.
#[derive(Clone)]
pub struct Manager {
    shared: Arc<Shared>,
}

/// A cache behind a type-erased interface.
struct Cached {
    cache: Box<dyn Any + Send + Sync>,
    kind: String,
    is_synced: Box<dyn Fn() -> bool + Send + Sync>,
}

struct Shared {
    client: Client,
    fence: WriteFence,
    caches: Mutex<HashMap<TypeId, Cached>>,
    /// Tasks that end by themselves when `stopping` is set.
    workers: Mutex<JoinSet<()>>,
    /// Tasks that run until [`Manager::stop`] aborts them.
    helpers: Mutex<JoinSet<()>>,
    events: events::Sender,
    foreign: OnceLock<OptionalKinds>,
    metrics: Metrics,
    backoff: Backoff,
    stopping: watch::Sender<bool>,
}

impl Manager {
    /// A manager without leader election. Call within a tokio runtime.
    pub fn new(client: Client) -> Self {
        Self::with_fence(client, WriteFence::unelected())
    }

    /// A manager without leader election for the lab: failed reconciles are retried within seconds.
    pub fn for_lab(client: Client) -> Self {
        Self::with_backoff(client, WriteFence::unelected(), Backoff::LAB)
    }

    /// A manager whose caches are always warm and whose controllers run while this process leads. Its
    /// client is fenced: it sends no write at any other time.
    pub fn with_fence(client: Client, fence: WriteFence) -> Self {
        Self::with_backoff(client, fence, Backoff::CLUSTER)
    }

    fn with_backoff(client: Client, fence: WriteFence, backoff: Backoff) -> Self {
        // First of all: the recorder and every cache below get the fenced client, so no
        // path to an unfenced write exists in a manager.
        let client = fence.fence(client);
        let (events, recording) = events::recorder(client.clone());
        let mut helpers = JoinSet::new();
        helpers.spawn(recording);
        Self {
            shared: Arc::new(Shared {
                client,
                metrics: Metrics::new(fence.clone()),
                fence,
                caches: Mutex::default(),
                workers: Mutex::default(),
                helpers: Mutex::new(helpers),
                events,
                foreign: OnceLock::new(),
                backoff,
                stopping: watch::Sender::new(false),
            }),
        }
    }

    /// The write fence of this process.
    pub fn fence(&self) -> &WriteFence {
        &self.shared.fence
    }

    /// The fenced client.
    pub fn client(&self) -> Client {
        self.shared.client.clone()
    }

    /// The objects of a kind, in all namespaces. The first call starts the watch.
    pub fn cache<K: Kind<DynamicType = ()>>(&self) -> Cache<K> {
        self.cache_with(|object: &mut K| object.meta_mut().managed_fields = None)
    }

    /// Like [`Manager::cache`], but `trim` drops parts of each object before it is stored, for large
    /// and numerous kinds. The `trim` of the first call is used.
    pub fn cache_with<K: Kind<DynamicType = ()>>(
        &self,
        trim: impl Fn(&mut K) + Send + Sync + 'static,
    ) -> Cache<K> {
        // Held until the cache is inserted. Two controllers that ask for a kind at the same time would otherwise
        // start two watches, and one of them would never be seen by the other's `saw`.
        let mut caches = self.shared.caches.lock();
        let known = caches.get(&TypeId::of::<K>());
        if let Some(cache) = known.and_then(|known| known.cache.downcast_ref::<Cache<K>>()) {
            return cache.clone();
        }
        let cache = self.watch(Cache::follow_with(Api::all(self.client()), trim));
        let probe = cache.clone();
        let cached = Cached {
            cache: Box::new(cache.clone()),
            kind: K::kind(&()).into_owned(),
            // Readiness must not depend on an optional CRD: the operator would never
            // become ready in a cluster without KubeVirt.
            is_synced: Box::new(move || probe.is_synced() || probe.is_absent()),
        };
        caches.insert(TypeId::of::<K>(), cached);
        cache
    }

    /// Runs the reflector of a cache until the manager stops, and reports objects of it that cannot be
    /// decoded: counted in `medley_undecodable_objects`, and by an event when one appears.
    pub fn watch<K: Kind<DynamicType = ()>>(
        &self,
        (cache, reflector): (Cache<K>, impl Future<Output = ()> + Send + 'static),
    ) -> Cache<K> {
        let counted = cache.clone();
        self.metrics()
            .count_undecodable(&K::kind(&()), move || counted.undecodable_len());
        let events = self.events(COMPONENT);
        cache.on_undecodable(move |object| {
            let about = PartialObjectMeta::<K> {
                types: None,
                metadata: object.metadata.clone(),
                _phantom: std::marker::PhantomData,
            };
            let message = format!(
                "ignored until it can be decoded: {}; compare the object with its CustomResourceDefinition and the \
                 version of Medley",
                object.error
            );
            events.warning(&about, UNDECODABLE, message);
        });
        self.spawn(reflector);
        cache
    }

    /// The kinds that have not been listed yet, by name. A kind that is not installed counts as listed.
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

    /// Kinds of other operators that the API server does not list, with its message. What uses them reports it; the
    /// process is ready all the same.
    pub fn rejected_kinds(&self) -> Vec<(String, String)> {
        let foreign = self.shared.foreign.get();
        foreign.map(OptionalKinds::rejections).unwrap_or_default()
    }

    /// Kinds that may not be installed. The first call starts the watch of CRDs.
    pub fn optional_kinds(&self) -> &OptionalKinds {
        self.shared.foreign.get_or_init(|| {
            let (foreign, keeping) = OptionalKinds::new(self.client(), self.cache());
            self.spawn(keeping);
            foreign
        })
    }

    /// The metrics of this process.
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// An event recorder for a component.
    pub fn events(&self, component: &'static str) -> Events {
        Events::new(component, self.shared.events.clone())
    }

    /// Runs a task until the manager stops; it may be aborted at any await point.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.shared.helpers.lock().spawn(task);
    }

    /// Starts a controller with this many workers; they process the queue while this process leads. Its
    /// caches should have been [synced](Cache::synced).
    pub fn start<T, C>(&self, controller: C, queue: &Queue<T>, workers: usize)
    where
        T: Hash + Eq + Clone + Display + Send + Sync + 'static,
        C: Reconcile<T>,
    {
        // Before the workers: every result then has a series of value 0 from the start. `rate()` of Prometheus misses
        // the first increment of a series that appears with value 1.
        let work = self.metrics().controller(controller.name(), queue);
        let controller = Arc::new(controller);
        let mut tasks = self.shared.workers.lock();
        for _ in 0..workers {
            tasks.spawn(reconcile::work(
                Arc::clone(&controller),
                queue.clone(),
                work.clone(),
                self.shared.fence.clone(),
                self.shared.backoff,
                self.shared.stopping.subscribe(),
            ));
        }
    }

    /// Stops all controllers: running reconciles may complete, no new ones start.
    pub async fn stop(&self) {
        // Workers first, helpers last: a reconcile that is still running waits for a cache to observe its write, and
        // the reflector that delivers it is a helper.
        self.shared.stopping.send_replace(true);
        let mut workers = std::mem::take(&mut *self.shared.workers.lock());
        let ended = tokio::time::timeout(STOP_TIMEOUT, async {
            while workers.join_next().await.is_some() {}
        });
        if ended.await.is_err() {
            // An aborted reconcile stops at its next await. Every write is complete in itself and the next leader
            // decides from the cluster, so this leaves the same state as a crash would.
            workers.shutdown().await;
        }
        let mut helpers = std::mem::take(&mut *self.shared.helpers.lock());
        helpers.shutdown().await;
    }
}
