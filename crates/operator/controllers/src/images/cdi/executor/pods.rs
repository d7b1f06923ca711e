//! Imports in pods: one for each try.

mod progress;

use std::collections::HashMap;
use std::sync::Arc;

use api::cdi::{DataVolume, annotations};
use golden_images::action::annotation;
use golden_images::cdi::data_volume::{Importer, State};
use golden_images::cdi::failure::{Failure, Reason};
use golden_images::cdi::pod::{self, Making};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, PostParams, Preconditions};
use parking_lot::Mutex;
use platform::AddressPolicy;
use runtime::{Absent as _, Cache, Error, Key, Manager, Queue};
use serde_json::Value;

use super::Task;
use crate::images::cdi::COMPONENT;
use crate::images::cdi::world::World;

/// The pods; clones are the same.
#[derive(Clone)]
pub(in crate::images::cdi) struct Pods {
    world: World,
    image: String,
    /// Restricted addresses that pods may connect to.
    allowed: Vec<String>,
    there: Cache<Pod>,
    /// How far pods say that they are, by uid.
    progress: Arc<Mutex<HashMap<String, u16>>>,
    /// Pods that the cluster does not want, by the uid of their DataVolume.
    refused: Arc<Mutex<HashMap<String, Importer>>>,
    volumes: Queue<Key>,
}

/// The object of a kind that a pod was made for.
pub(in crate::images::cdi) fn owner(pod: &Pod, kind: &str) -> Option<Key> {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    let owner = owners.find(|it| it.kind == kind)?;
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    Some(Key::new(namespace, &owner.name))
}

/// The DataVolume that a pod imports.
fn volume_of(pod: &Pod) -> Option<Key> {
    owner(pod, "DataVolume")
}

/// Makes a pod. That the cluster does not want it is an answer: a policy, a quota, or that it knows no
/// volumes that are images.
pub(in crate::images::cdi) async fn create(
    manager: &Manager,
    there: &Cache<Pod>,
    object: Value,
    what: &str,
) -> Result<Result<(), Failure>, Error> {
    let namespace = object["metadata"]["namespace"].as_str();
    let namespace = namespace.unwrap_or_default().to_owned();
    let object = serde_json::from_value(object)
        .map_err(|error| Error::Invalid(format!("{what}: {error}")))?;
    let params = PostParams {
        field_manager: Some(COMPONENT.to_owned()),
        ..PostParams::default()
    };
    let pods: Api<Pod> = Api::namespaced(manager.client(), &namespace);
    match pods.create(&params, &object).await {
        Ok(made) => {
            there.saw(&made).await;
            Ok(Ok(()))
        }
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 422) => {
            let message = format!("{what} is refused: {}", status.message);
            Ok(Err(Failure::new(Reason::ImportFailed, message)))
        }
        Err(error) => Err(Error::api(format!("creating {what}"))(error)),
    }
}

/// Removes a pod, and no other that has come to bear its name.
pub(in crate::images::cdi) async fn delete(
    manager: &Manager,
    there: &Cache<Pod>,
    pod: &Pod,
) -> Result<(), Error> {
    let key = Key::of(&pod.metadata);
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: pod.metadata.uid.clone(),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    let pods: Api<Pod> = Api::namespaced(manager.client(), &key.namespace);
    pods.delete(&key.name, &params)
        .await
        .or_absent()
        .map_err(Error::api(format!("deleting the pod {key}")))?;
    there.saw_deletion(&pod.metadata).await;
    Ok(())
}

impl Pods {
    pub(super) fn new(
        manager: &Manager,
        world: World,
        image: &str,
        addresses: &AddressPolicy,
        volumes: &Queue<Key>,
    ) -> Self {
        let pods = manager.cache::<Pod>();
        let told = volumes.clone();
        pods.on_change(move |change| {
            for volume in change.sides().filter_map(|pod| volume_of(pod)) {
                told.add(volume);
            }
        });
        let progress = Arc::default();
        let asking = progress::follow(
            pods.clone(),
            addresses.clone(),
            Arc::clone(&progress),
            volumes.clone(),
        );
        manager.spawn(asking);
        Self {
            world,
            image: image.to_owned(),
            allowed: addresses
                .allowed()
                .iter()
                .map(ToString::to_string)
                .collect(),
            there: pods,
            progress,
            refused: Arc::default(),
            volumes: volumes.clone(),
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
        let uid = volume.metadata.uid.as_deref().unwrap_or_default();
        if let Some(refused) = self.refused.lock().get(uid) {
            return Some(refused.clone());
        }
        let found = self.of(volume)?;
        let mut importer = pod::read(&found);
        if importer.state == State::Running(None) {
            let uid = found.metadata.uid.as_deref().unwrap_or_default();
            importer.state = State::Running(self.progress.lock().get(uid).copied());
        }
        Some(importer)
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
            allowed: &self.allowed,
            sniffing: task.sniffing,
        };
        let key = Key::of(&task.volume.metadata);
        let object = pod::pod(&making, &task.origin);
        let what = format!("the importer of {key}");
        let made = create(&self.world.manager, &self.there, object, &what).await?;
        if let Err(failure) = made {
            // As good as a try that failed.
            let importer = Importer {
                attempt: task.attempt,
                state: State::Failed(failure),
            };
            let uid = task.volume.metadata.uid.clone().unwrap_or_default();
            self.refused.lock().insert(uid, importer);
            self.volumes.add(key);
        }
        Ok(())
    }

    pub(super) async fn remove(&self, volume: &DataVolume) -> Result<bool, Error> {
        let uid = volume.metadata.uid.as_deref().unwrap_or_default();
        if self.refused.lock().remove(uid).is_some() {
            return Ok(true);
        }
        let Some(found) = self.of(volume) else {
            return Ok(false);
        };
        let kept = annotation(&volume.metadata, annotations::RETAIN_POD) == Some("true");
        if kept && matches!(pod::read(&found).state, State::Succeeded(_)) {
            return Ok(false);
        }
        delete(&self.world.manager, &self.there, &found).await?;
        Ok(true)
    }
}
