//! Imports in pods: one for each try.

mod progress;

use std::collections::HashMap;
use std::sync::Arc;

use api::cdi::{DataVolume, annotations};
use chassis::{Absent as _, Cache, Error, Key, Manager, Queue};
use golden::action::annotation;
use golden::cdi::data_volume::{Importer, State};
use golden::cdi::pod::{self, Making};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, PostParams, Preconditions};
use parking_lot::Mutex;

use super::Task;
use crate::images::cdi::COMPONENT;
use crate::images::cdi::world::World;

/// The pods; clones are the same.
#[derive(Clone)]
pub(in crate::images::cdi) struct Pods {
    world: World,
    image: String,
    there: Cache<Pod>,
    /// How far pods say that they are, by uid.
    progress: Arc<Mutex<HashMap<String, u16>>>,
}

/// The DataVolume that a pod imports.
fn volume_of(pod: &Pod) -> Option<Key> {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    let owner = owners.find(|it| it.kind == "DataVolume")?;
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    Some(Key::new(namespace, &owner.name))
}

impl Pods {
    pub(super) fn new(manager: &Manager, world: World, image: &str, volumes: &Queue<Key>) -> Self {
        let pods = manager.cache::<Pod>();
        let told = volumes.clone();
        pods.on_change(move |change| {
            for volume in change.sides().filter_map(|pod| volume_of(pod)) {
                told.add(volume);
            }
        });
        let progress = Arc::default();
        let asking = progress::follow(pods.clone(), Arc::clone(&progress), volumes.clone());
        manager.spawn(asking);
        Self {
            world,
            image: image.to_owned(),
            there: pods,
            progress,
        }
    }

    pub(super) async fn synced(&self) {
        self.there.synced().await;
    }

    /// The pod of a DataVolume, unless it is on its way out.
    fn of(&self, volume: &DataVolume) -> Option<Arc<Pod>> {
        let key = Key::of(&volume.metadata);
        let found = self.there.get(&key.namespace, &pod::name(&key.name))?;
        let mut owners = found.metadata.owner_references.iter().flatten();
        let own = owners.any(|it| Some(&it.uid) == volume.metadata.uid.as_ref());
        (own && found.metadata.deletion_timestamp.is_none()).then_some(found)
    }

    pub(super) fn look(&self, volume: &DataVolume) -> Option<Importer> {
        let found = self.of(volume)?;
        let mut importer = pod::read(&found);
        if importer.state == State::Running(None) {
            let uid = found.metadata.uid.as_deref().unwrap_or_default();
            importer.state = State::Running(self.progress.lock().get(uid).copied());
        }
        Some(importer)
    }

    fn api(&self, volume: &DataVolume) -> Api<Pod> {
        let namespace = volume.metadata.namespace.as_deref().unwrap_or_default();
        Api::namespaced(self.world.manager.client(), namespace)
    }

    pub(super) async fn start(&self, task: &Task) -> Result<(), Error> {
        let making = Making {
            volume: &task.volume,
            claim: &task.claim,
            room: task.room,
            attempt: task.attempt,
            node: task.node.as_deref(),
            image: &self.image,
            insecure: &self.world.insecure().await?,
            sniffing: task.sniffing,
        };
        let key = Key::of(&task.volume.metadata);
        let object = serde_json::from_value(pod::pod(&making, &task.origin))
            .map_err(|error| Error::Invalid(format!("the importer of {key}: {error}")))?;
        let params = PostParams {
            field_manager: Some(COMPONENT.to_owned()),
            ..PostParams::default()
        };
        let made = self.api(&task.volume).create(&params, &object).await;
        let made = made.map_err(Error::api(format!("creating the importer of {key}")))?;
        self.there.saw(&made).await;
        Ok(())
    }

    pub(super) async fn remove(&self, volume: &DataVolume) -> Result<bool, Error> {
        let Some(found) = self.of(volume) else {
            return Ok(false);
        };
        let kept = annotation(&volume.metadata, annotations::RETAIN_POD) == Some("true");
        if kept && matches!(pod::read(&found).state, State::Succeeded(_)) {
            return Ok(false);
        }
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: found.metadata.uid.clone(),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let name = found.metadata.name.as_deref().unwrap_or_default();
        self.api(volume)
            .delete(name, &params)
            .await
            .or_absent()
            .map_err(Error::api(format!("deleting the importer pod {name}")))?;
        self.there.saw_deletion(&found.metadata).await;
        Ok(true)
    }
}
