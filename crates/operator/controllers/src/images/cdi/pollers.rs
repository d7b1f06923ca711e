//! Pods that resolve images where a node pulls them: one per DataImportCron, only while it polls.

use std::collections::HashMap;
use std::sync::Arc;

use api::cdi::DataImportCron;
use golden_images::cdi::failure::Failure;
use golden_images::cdi::poller::{self, PollerState};
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use runtime::{Cache, Error, Key, Queue};

use super::executor::pods::{PodWriter, owner};

/// Poller pods; clones share their state.
#[derive(Clone)]
pub(super) struct Pollers {
    pods: PodWriter,
    image: String,
    cache: Cache<Pod>,
    /// Pods that the API server rejected.
    refused: Arc<Mutex<HashMap<Key, Failure>>>,
    crons: Queue<Key>,
}

impl Pollers {
    pub(super) fn new(pods: PodWriter, image: &str, crons: &Queue<Key>) -> Self {
        let cache = pods.cache().clone();
        let enqueue = crons.clone();
        cache.on_change(move |change| {
            for cron in change
                .sides()
                .filter_map(|pod| owner(pod, "DataImportCron"))
            {
                enqueue.add(cron);
            }
        });
        Self {
            pods,
            image: image.to_owned(),
            cache,
            refused: Arc::default(),
            crons: crons.clone(),
        }
    }

    /// The pod of a DataImportCron, unless it is terminating.
    fn of(&self, cron: &DataImportCron) -> Option<Arc<Pod>> {
        let namespace = cron.metadata.namespace.as_deref().unwrap_or_default();
        let found = self.cache.get(namespace, &poller::name(cron))?;
        let mut owners = found.metadata.owner_references.iter().flatten();
        let own = owners.any(|it| Some(&it.uid) == cron.metadata.uid.as_ref());
        (own && found.metadata.deletion_timestamp.is_none()).then_some(found)
    }

    /// The state of the pod, if there is one.
    pub(super) fn state(&self, cron: &DataImportCron) -> Option<PollerState> {
        let key = Key::of(&cron.metadata);
        if let Some(failure) = self.refused.lock().get(&key) {
            return Some(PollerState::Answered(Err(failure.clone())));
        }
        self.of(cron).map(|pod| poller::read(&pod))
    }

    /// Creates the pod if it does not exist.
    pub(super) async fn start(&self, cron: &DataImportCron) -> Result<(), Error> {
        if self.of(cron).is_some() {
            return Ok(());
        }
        let source = cron.spec.template.spec.source.as_ref();
        let registry = source.and_then(|it| it.registry.as_ref());
        let Some(object) = registry.and_then(|it| poller::pod(cron, it, &self.image)) else {
            return Ok(());
        };
        let key = Key::of(&cron.metadata);
        let what = format!("the poller pod of DataImportCron {key}");
        match self.pods.create(object, &what).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(failure)) => {
                self.refused.lock().insert(key.clone(), failure);
                self.crons.add(key);
                Ok(())
            }
            // The previous pod is terminating; its deletion event enqueues the cron.
            Err(error) if error.is_conflict() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Deletes the pod.
    pub(super) async fn remove(&self, cron: &DataImportCron) -> Result<(), Error> {
        let key = Key::of(&cron.metadata);
        self.refused.lock().remove(&key);
        let Some(found) = self.of(cron) else {
            return Ok(());
        };
        self.pods.delete(&found).await
    }

    pub(super) fn forget(&self, key: &Key) {
        self.refused.lock().remove(key);
    }
}
