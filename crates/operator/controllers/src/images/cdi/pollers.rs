//! Pods that ask for images where a node pulls them: one for each DataImportCron, and only while it
//! asks.

use std::collections::HashMap;
use std::sync::Arc;

use api::cdi::DataImportCron;
use golden_images::cdi::failure::Failure;
use golden_images::cdi::poller::{self, Seen};
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use runtime::{Cache, Error, Key, Manager, Queue};

use super::executor::pods::{create, delete, owner};

/// The pods; clones are the same.
#[derive(Clone)]
pub(super) struct Pollers {
    manager: Manager,
    image: String,
    there: Cache<Pod>,
    /// Those that the cluster does not want.
    refused: Arc<Mutex<HashMap<Key, Failure>>>,
    crons: Queue<Key>,
}

impl Pollers {
    pub(super) fn new(manager: &Manager, image: &str, crons: &Queue<Key>) -> Self {
        let there = manager.cache::<Pod>();
        let told = crons.clone();
        there.on_change(move |change| {
            for cron in change
                .sides()
                .filter_map(|pod| owner(pod, "DataImportCron"))
            {
                told.add(cron);
            }
        });
        Self {
            manager: manager.clone(),
            image: image.to_owned(),
            there,
            refused: Arc::default(),
            crons: crons.clone(),
        }
    }

    /// The pod of a DataImportCron, unless it is on its way out.
    fn of(&self, cron: &DataImportCron) -> Option<Arc<Pod>> {
        let namespace = cron.metadata.namespace.as_deref().unwrap_or_default();
        let found = self.there.get(namespace, &poller::name(cron))?;
        let mut owners = found.metadata.owner_references.iter().flatten();
        let own = owners.any(|it| Some(&it.uid) == cron.metadata.uid.as_ref());
        (own && found.metadata.deletion_timestamp.is_none()).then_some(found)
    }

    /// What is seen of the pod, if there is one.
    pub(super) fn look(&self, cron: &DataImportCron) -> Option<Seen> {
        let key = Key::of(&cron.metadata);
        if let Some(failure) = self.refused.lock().get(&key) {
            return Some(Seen::Answered(Err(failure.clone())));
        }
        self.of(cron).map(|pod| poller::read(&pod))
    }

    /// Makes the pod, unless it is there.
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
        let what = format!("the pod that asks for the image of DataImportCron {key}");
        match create(&self.manager, &self.there, object, &what).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(failure)) => {
                self.refused.lock().insert(key.clone(), failure);
                self.crons.add(key);
                Ok(())
            }
            // The one before is on its way out; when it is gone, it is told.
            Err(error) if error.is_race() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes the pod, which has said what it had to say.
    pub(super) async fn remove(&self, cron: &DataImportCron) -> Result<(), Error> {
        let key = Key::of(&cron.metadata);
        self.refused.lock().remove(&key);
        let Some(found) = self.of(cron) else {
            return Ok(());
        };
        delete(&self.manager, &self.there, &found).await
    }

    pub(super) fn forget(&self, key: &Key) {
        self.refused.lock().remove(key);
    }
}
