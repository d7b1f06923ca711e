//! State shared by KubeVirt's controllers.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{DynamicObject, ObjectMeta};
use runtime::{Absent as _, Cache, Error, Events, Key, Manager, Writer};
use serde_json::{Map, Value, json};

use super::config::Config;
use super::instances::is_owned;
use super::kubevirt;
use super::labels::{NODE_NAME, OBSERVED_VERSIONS, UNPAUSED, VERSION};
use super::launcher::Launcher;
use crate::operators::report::{Objects, now};
use crate::pace::Pace;

/// Field managers.
const API: &str = "virt-api";
const CONTROLLER: &str = "virt-controller";
const HANDLER: &str = "virt-handler";

/// Clones share all state.
#[derive(Clone)]
pub(super) struct Context {
    /// Speed of simulated time, as a multiple of real time.
    pub(super) speed: f64,
    pub(super) pace: Pace,
    pub(super) nodes: Cache<Node>,
    pub(super) pods: Cache<Pod>,
    pub(super) machines: Objects,
    pub(super) instances: Objects,
    pub(super) migrations: Objects,
    /// Instances and migrations for what virt-api's webhooks would add to a request.
    admitted: [Writer<DynamicObject>; 2],
    /// Instances for virt-handler.
    handled: Writer<DynamicObject>,
    pub(super) configs: Cache<DynamicObject>,
    pub(super) node_writer: Writer<Node>,
    pod_writer: Writer<Pod>,
    /// Event recorder of virt-controller.
    pub(super) controller: Events,
    /// Event recorder of virt-handler.
    pub(super) handler: Events,
}

impl Context {
    /// Starts the caches of all kinds.
    pub(super) async fn start(manager: &Manager, client: Client, speed: f64) -> Self {
        let follow = |kind: &str| {
            let mut objects = Objects::follow(manager, &client, kubevirt(kind));
            objects.writer = objects.writer.managed_by(CONTROLLER);
            objects
        };
        let (nodes, pods) = (manager.cache(), manager.cache());
        let instances = follow("VirtualMachineInstance");
        let migrations = follow("VirtualMachineInstanceMigration");
        let by = |objects: &Objects, manager: &str| objects.writer.clone().managed_by(manager);
        let node_writer = Writer::cluster(client.clone()).managed_by(HANDLER);
        let pod_writer = Writer::namespaced(client.clone()).managed_by(CONTROLLER);
        let context = Self {
            speed,
            pace: Pace::new(speed),
            machines: follow("VirtualMachine"),
            admitted: [by(&instances, API), by(&migrations, API)],
            handled: by(&instances, HANDLER),
            instances,
            migrations,
            configs: follow("KubeVirt").cache,
            node_writer: node_writer.shown_by(&nodes),
            pod_writer: pod_writer.shown_by(&pods),
            nodes,
            pods,
            controller: manager.events("virtualmachine-controller"),
            handler: manager.events("virt-handler"),
        };
        tokio::join!(
            context.nodes.synced(),
            context.pods.synced(),
            context.machines.cache.synced(),
            context.instances.cache.synced(),
            context.migrations.cache.synced(),
            context.configs.synced(),
        );
        context
    }

    /// The current configuration. Expects one KubeVirt object; of several the first is used.
    pub(super) fn config(&self) -> Config {
        Config::of(self.configs.list().first().map(Arc::as_ref))
    }

    /// The virtual machine that owns an instance.
    pub(super) fn machine_of(&self, instance: &DynamicObject) -> Option<Arc<DynamicObject>> {
        let machine = self.machines.cache.find(&Key::of(&instance.metadata));
        machine.filter(|machine| is_owned(instance, machine))
    }

    /// The launcher pods of an instance.
    pub(super) fn launchers(&self, instance: &ObjectMeta) -> Vec<Launcher> {
        let pods = self
            .pods
            .controlled_by(instance.uid.as_deref().unwrap_or_default());
        pods.iter().map(|pod| Launcher::of(pod)).collect()
    }

    /// Updates an instance as virt-controller; fails with a conflict if it changed since it was read, or if an admission
    /// webhook denies it.
    pub(super) async fn update_instance(&self, instance: &DynamicObject) -> Result<(), Error> {
        let written = self.instances.writer.replace(instance).await;
        written.not_found_as_none().map(drop)
    }

    /// The same as virt-handler.
    pub(super) async fn handle_instance(&self, instance: &DynamicObject) -> Result<(), Error> {
        let written = self.handled.replace(instance).await;
        written.not_found_as_none().map(drop)
    }

    /// The same as virt-api, which does not need a request of its own.
    pub(super) async fn admit_instance(&self, instance: &DynamicObject) -> Result<(), Error> {
        let [instances, _] = &self.admitted;
        let written = instances.replace(instance).await;
        written.not_found_as_none().map(drop)
    }

    /// Sets metadata of a migration as virt-api.
    pub(super) async fn admit_migration(
        &self,
        migration: &DynamicObject,
        metadata: Value,
    ) -> Result<(), Error> {
        let [_, migrations] = &self.admitted;
        let patch = json!({ "metadata": metadata });
        let written = migrations.merge_into(&migration.metadata, patch).await;
        written.not_found_as_none().map(drop)
    }

    /// Annotates an object with the version of the API that virt-controller knows. Returns whether it was not. An object
    /// that is being deleted may be gone by then.
    pub(super) async fn mark_observed(
        &self,
        objects: &Objects,
        object: &DynamicObject,
    ) -> Result<bool, Error> {
        let annotations = object.metadata.annotations.as_ref();
        let has = |name: &&str| {
            let value = annotations.and_then(|all| all.get(*name));
            value.is_some_and(|value| value == VERSION)
        };
        if object.metadata.deletion_timestamp.is_some() || OBSERVED_VERSIONS.iter().all(has) {
            return Ok(false);
        }
        let fields = OBSERVED_VERSIONS.map(|name| (name.to_owned(), json!(VERSION)));
        let fields: Map<String, Value> = fields.into_iter().collect();
        let patch = json!({ "metadata": { "annotations": fields } });
        let written = objects.writer.merge_into(&object.metadata, patch).await;
        Ok(written.not_found_as_none()?.is_some())
    }

    /// Reports on a launcher that its guest is not paused, and the node in the label of the instance. Returns whether
    /// something was written.
    pub(super) async fn sync_launcher(
        &self,
        instance: &DynamicObject,
        launcher: &Launcher,
    ) -> Result<bool, Error> {
        let namespace = instance.metadata.namespace.as_deref().unwrap_or_default();
        let key = Key::new(namespace, launcher.name.as_str());
        if !launcher.unpaused {
            let now = now();
            let status = json!({ "status": { "conditions": [{
                "type": UNPAUSED, "status": "True", "reason": "NotPaused",
                "message": "the virtual machine is not paused",
                "lastProbeTime": now, "lastTransitionTime": now,
            }] } });
            let written = self.pod_writer.merge_status(&key, &status).await;
            return Ok(written.not_found_as_none()?.is_some());
        }
        let labels = instance.metadata.labels.as_ref();
        let node = labels.and_then(|labels| labels.get(NODE_NAME));
        if launcher.labelled.as_ref() == node {
            return Ok(false);
        }
        let patch = json!({ "metadata": { "labels": { NODE_NAME: node } } });
        let written = self.pod_writer.merge(&key, &patch).await;
        Ok(written.not_found_as_none()?.is_some())
    }

    /// Annotates a pod.
    pub(super) async fn annotate_pod(
        &self,
        namespace: &str,
        pod: &Launcher,
        (name, value): (&str, &str),
    ) -> Result<(), Error> {
        let key = Key::new(namespace, pod.name.as_str());
        let patch = json!({ "metadata": { "annotations": { name: value } } });
        let written = self.pod_writer.merge(&key, &patch).await;
        written.not_found_as_none().map(drop)
    }

    /// Creates a pod.
    pub(super) async fn create_pod(&self, namespace: &str, pod: Value) -> Result<Pod, Error> {
        let mut pod: Pod = serde_json::from_value(pod)
            .map_err(|error| Error::Invalid(format!("the launcher in {namespace}: {error}")))?;
        pod.metadata.namespace = Some(namespace.to_owned());
        self.pod_writer.create(&pod).await
    }

    /// Deletes this very pod.
    pub(super) async fn delete_pod(&self, namespace: &str, pod: &Launcher) -> Result<(), Error> {
        let meta = ObjectMeta {
            namespace: Some(namespace.to_owned()),
            name: Some(pod.name.clone()),
            uid: Some(pod.uid.clone()),
            ..ObjectMeta::default()
        };
        settled(self.pod_writer.delete(&meta).await)
    }

    /// Deletes this very instance.
    pub(super) async fn delete_instance(&self, instance: &DynamicObject) -> Result<(), Error> {
        settled(self.instances.writer.delete(&instance.metadata).await)
    }
}

/// The object is gone, even if another one has its name by now.
fn settled<T>(deleted: Result<T, Error>) -> Result<(), Error> {
    match deleted {
        Err(error) if error.is_conflict() => Ok(()),
        other => other.map(drop),
    }
}
