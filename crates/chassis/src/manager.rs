//! What controllers share: the client, one cache a kind, events, and the tasks that run them.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hash;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::events::{self, Events};
use crate::reconcile::{self, Reconcile};
use crate::{Cache, Foreign, Kind, Queue};

/// How long controllers may take to bring what they have begun to its end.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs controllers; clones share everything.
#[derive(Clone)]
pub struct Manager {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    caches: Mutex<HashMap<TypeId, Box<dyn Any + Send + Sync>>>,
    /// Tasks that are to end by themselves when all is to stop.
    workers: Mutex<JoinSet<()>>,
    /// Tasks that run for as long as anything runs.
    helpers: Mutex<JoinSet<()>>,
    events: events::Sender,
    foreign: OnceLock<Foreign>,
    stopping: watch::Sender<bool>,
}

impl Manager {
    /// A manager of nothing yet. Call within a runtime.
    pub fn new(client: Client) -> Self {
        let (events, recording) = events::recorder(client.clone());
        let mut helpers = JoinSet::new();
        helpers.spawn(recording);
        Self {
            shared: Arc::new(Shared {
                client,
                caches: Mutex::default(),
                workers: Mutex::default(),
                helpers: Mutex::new(helpers),
                events,
                foreign: OnceLock::new(),
                stopping: watch::Sender::new(false),
            }),
        }
    }

    /// The client everything is done with.
    pub fn client(&self) -> Client {
        self.shared.client.clone()
    }

    /// The objects of a kind, in all namespaces. The first who asks starts the watch.
    pub fn cache<K: Kind<DynamicType = ()>>(&self) -> Cache<K> {
        let mut caches = self.shared.caches.lock();
        let known = caches.get(&TypeId::of::<K>());
        if let Some(cache) = known.and_then(|cache| cache.downcast_ref::<Cache<K>>()) {
            return cache.clone();
        }
        let (cache, running) = Cache::follow(Api::all(self.client()));
        self.shared.helpers.lock().spawn(running);
        caches.insert(TypeId::of::<K>(), Box::new(cache.clone()));
        cache
    }

    /// Kinds that may not be installed. The first who asks has their definitions followed.
    pub fn foreign(&self) -> &Foreign {
        self.shared.foreign.get_or_init(|| {
            let (foreign, keeping) = Foreign::new(self.client(), self.cache());
            self.spawn(keeping);
            foreign
        })
    }

    /// Reports events in the name of a component.
    pub fn events(&self, component: &'static str) -> Events {
        Events::new(component, self.shared.events.clone())
    }

    /// Runs a task until everything stops; it may be ended at any await.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.shared.helpers.lock().spawn(task);
    }

    /// Starts a controller with so many workers. Its caches should have been [synced](Cache::synced).
    pub fn start<T, C>(&self, controller: C, queue: &Queue<T>, workers: usize)
    where
        T: Hash + Eq + Clone + Display + Send + Sync + 'static,
        C: Reconcile<T>,
    {
        let controller = Arc::new(controller);
        let mut tasks = self.shared.workers.lock();
        for _ in 0..workers {
            tasks.spawn(reconcile::work(
                Arc::clone(&controller),
                queue.clone(),
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
