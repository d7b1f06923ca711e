//! Imports in pods: one pod per attempt.

mod progress;

use std::collections::HashMap;
use std::sync::Arc;

use api::cdi::{DataVolume, annotations};
use golden_images::action::annotation;
use golden_images::cdi::data_volume::{Importer, State};
use golden_images::cdi::failure::{Failure, Reason};
use golden_images::cdi::pod::{self, ImporterPodInputs};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::Api;
use oci::Network;
use parking_lot::Mutex;
use platform::AddressPolicy;
use runtime::{Cache, Error, Key, Manager, Queue, Writer};
use serde_json::Value;

use super::Task;
use crate::images::cdi::COMPONENT;
use crate::images::cdi::registries::Registries;
use crate::images::cdi::view::ImportView;
use crate::images::layer::LayerWatch;

/// Importer pods; clones share their state.
#[derive(Clone)]
pub(in crate::images::cdi) struct Pods {
    view: ImportView,
    registries: Registries,
    image: String,
    /// Addresses outside the default policy that pods may connect to.
    allowed: Vec<String>,
    writer: PodWriter,
    cache: Cache<Pod>,
    /// Progress reported by pods, by uid.
    progress: Arc<Mutex<HashMap<String, u16>>>,
    /// Pods that the API server rejected, by the uid of their DataVolume.
    refused: Arc<Mutex<HashMap<String, Importer>>>,
    volumes: Queue<Key>,
}

/// The owner of a pod, if it is of this kind.
pub(in crate::images::cdi) fn owner(pod: &Pod, kind: &str) -> Option<Key> {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    let owner = owners.find(|it| it.kind == kind)?;
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    Some(Key::new(namespace, &owner.name))
}

/// The DataVolume of an importer pod: it has the name of the PVC that owns the pod.
fn volume_of(pod: &Pod) -> Option<Key> {
    owner(pod, "PersistentVolumeClaim").or_else(|| owner(pod, "DataVolume"))
}

/// Creates and deletes pods of the layer, which has to manage imports meanwhile; clones share the cache.
#[derive(Clone)]
pub(in crate::images::cdi) struct PodWriter {
    manager: Manager,
    layer: LayerWatch,
    cache: Cache<Pod>,
}

impl PodWriter {
    pub(in crate::images::cdi) fn new(manager: &Manager, layer: &LayerWatch) -> Self {
        Self {
            manager: manager.clone(),
            layer: layer.clone(),
            cache: manager.cache::<Pod>(),
        }
    }

    /// The pods of the cluster.
    pub(in crate::images::cdi) fn cache(&self) -> &Cache<Pod> {
        &self.cache
    }

    /// Creates a pod. A rejection is a result, not an error: a policy, a quota, or a cluster without image volumes.
    pub(in crate::images::cdi) async fn create(
        &self,
        object: Value,
        what: &str,
    ) -> Result<Result<(), Failure>, Error> {
        let namespace = object["metadata"]["namespace"].as_str();
        let namespace = namespace.unwrap_or_default().to_owned();
        let object = serde_json::from_value(object)
            .map_err(|error| Error::Invalid(format!("{what}: {error}")))?;
        self.layer.permit().await?;
        match self.writer(&namespace).create(&object).await {
            Ok(_) => Ok(Ok(())),
            Err(error) => match error.rejection() {
                Some(why) => {
                    let message = format!("{what} was rejected: {why}");
                    Ok(Err(Failure::new(Reason::ImportFailed, message)))
                }
                None => Err(error),
            },
        }
    }

    /// Deletes a pod, but not a new one of the same name.
    pub(in crate::images::cdi) async fn delete(&self, pod: &Pod) -> Result<(), Error> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        self.layer.permit().await?;
        self.writer(namespace).delete(&pod.metadata).await?;
        Ok(())
    }

    fn writer(&self, namespace: &str) -> Writer<Pod> {
        let pods = Api::namespaced(self.manager.client(), namespace);
        Writer::new(pods, COMPONENT).shown_by(&self.cache)
    }
}

/// Longest value of a variable: the kernel accepts 128 KiB for each string of an environment.
const MAX_VARIABLE_BYTES: usize = 100 << 10;

/// The variables of an importer pod for the network of the cluster.
fn variables(network: &Network, what: &str) -> Result<Vec<(&'static str, String)>, Error> {
    let portable = network.portable();
    let portable = portable.map(|text| (pod::environment::NETWORK, text));
    let all = network.proxies.variables().into_iter().chain(portable);
    let all: Vec<_> = all.collect();
    match all
        .iter()
        .find(|(_, value)| value.len() > MAX_VARIABLE_BYTES)
    {
        Some((name, value)) => Err(Error::Invalid(format!(
            "{what}: {name} would have {} bytes, at most {MAX_VARIABLE_BYTES} fit into the environment of a pod; use fewer mirrors or a smaller CA bundle",
            value.len()
        ))),
        None => Ok(all),
    }
}

impl Pods {
    pub(super) fn new(
        writer: PodWriter,
        view: ImportView,
        registries: &Registries,
        image: &str,
        addresses: &AddressPolicy,
        volumes: &Queue<Key>,
    ) -> Self {
        let pods = writer.cache().clone();
        let enqueue = volumes.clone();
        pods.on_change(move |change| {
            for volume in change.sides().filter_map(|pod| volume_of(pod)) {
                enqueue.add(volume);
            }
        });
        let progress = Arc::default();
        let polling = progress::follow(
            pods.clone(),
            addresses.clone(),
            Arc::clone(&progress),
            volumes.clone(),
        );
        writer.manager.spawn(polling);
        Self {
            view,
            registries: registries.clone(),
            image: image.to_owned(),
            allowed: addresses
                .allowed()
                .iter()
                .map(ToString::to_string)
                .collect(),
            writer,
            cache: pods,
            progress,
            refused: Arc::default(),
            volumes: volumes.clone(),
        }
    }

    pub(super) async fn synced(&self) {
        self.cache.synced().await;
    }

    /// The pod of a DataVolume, unless it is terminating.
    fn of(&self, volume: &DataVolume) -> Option<Arc<Pod>> {
        let key = Key::of(&volume.metadata);
        let found = self.cache.get(&key.namespace, &pod::name(&key.name))?;
        let claim = self.view.claims.find(&key);
        let own = pod::is_of(&found, volume, claim.as_deref());
        (own && found.metadata.deletion_timestamp.is_none()).then_some(found)
    }

    /// Deletes the importer pod of a terminating claim, which waits until no pod uses it.
    pub(super) async fn release(&self, claim: &PersistentVolumeClaim) -> Result<(), Error> {
        let key = Key::of(&claim.metadata);
        let found = self.cache.get(&key.namespace, &pod::name(&key.name));
        let found = found.filter(|it| {
            pod::is_controlled_by(it, &claim.metadata) && it.metadata.deletion_timestamp.is_none()
        });
        match found {
            Some(found) => self.writer.delete(&found).await,
            None => Ok(()),
        }
    }

    pub(super) fn state(&self, volume: &DataVolume) -> Option<Importer> {
        let uid = volume.metadata.uid.as_deref().unwrap_or_default();
        // A pod that was never created has no object to read the failure from. After a restart it is created again
        // and rejected again, which costs one request.
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
        let key = Key::of(&task.volume.metadata);
        let what = format!("the importer of {key}");
        let network = self.registries.network().await?;
        let network = variables(&network, &what)?;
        let making = ImporterPodInputs {
            volume: &task.volume,
            claim: &task.claim,
            room: task.capacity,
            attempt: task.attempt,
            node: task.node.as_deref(),
            image: &self.image,
            network: &network,
            insecure: &self.view.insecure().await?,
            allowed: &self.allowed,
            sniffing: task.sniffing,
        };
        let object = pod::pod(&making, &task.origin);
        let made = self.writer.create(object, &what).await?;
        if let Err(failure) = made {
            // Counts like a failed attempt.
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
        // CDI's `storage.pod.retainAfterCompletion` is for successful pods; a failed one stands in the way of the
        // next attempt, as its name is fixed.
        if kept && matches!(pod::read(&found).state, State::Succeeded(_)) {
            return Ok(false);
        }
        self.writer.delete(&found).await?;
        Ok(true)
    }
}
