//! State shared by KubeVirt's controllers.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{DynamicObject, ObjectMeta};
use runtime::{Absent as _, Cache, Error, Events, Manager, Writer};
use serde_json::Value;

use super::config::Config;
use super::kubevirt;
use super::launcher::Launcher;
use crate::operators::report::Objects;
use crate::pace::Pace;

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
        let follow = |kind: &str| Objects::follow(manager, &client, kubevirt(kind));
        let (nodes, pods) = (manager.cache(), manager.cache());
        let context = Self {
            speed,
            pace: Pace::new(speed),
            machines: follow("VirtualMachine"),
            instances: follow("VirtualMachineInstance"),
            migrations: follow("VirtualMachineInstanceMigration"),
            configs: follow("KubeVirt").cache,
            node_writer: Writer::cluster(client.clone()).shown_by(&nodes),
            pod_writer: Writer::namespaced(client.clone()).shown_by(&pods),
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

    /// The launcher pods of an instance.
    pub(super) fn launchers(&self, instance: &ObjectMeta) -> Vec<Launcher> {
        let pods = self
            .pods
            .controlled_by(instance.uid.as_deref().unwrap_or_default());
        pods.iter().map(|pod| Launcher::of(pod)).collect()
    }

    /// Updates an instance; fails with a conflict if it changed since it was read, or if an
    /// admission webhook denies it.
    pub(super) async fn update_instance(&self, instance: &DynamicObject) -> Result<(), Error> {
        let written = self.instances.writer.replace(instance).await;
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
