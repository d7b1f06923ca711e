//! State shared by KubeVirt's controllers.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{
    DeleteParams, DynamicObject, ObjectMeta, Patch, PatchParams, PostParams, Preconditions,
};
use kube::core::ApiResource;
use kube::{Api, Client};
use runtime::{Absent as _, Cache, Error, Events, Key, Manager};
use serde_json::{Value, json};

use super::config::Config;
use super::kubevirt;
use super::launcher::Launcher;
use crate::pace::Pace;

/// Clones share all state.
#[derive(Clone)]
pub(super) struct Context {
    pub(super) client: Client,
    /// Speed of simulated time, as a multiple of real time.
    pub(super) speed: f64,
    pub(super) pace: Pace,
    pub(super) nodes: Cache<Node>,
    pub(super) pods: Cache<Pod>,
    pub(super) machines: Cache<DynamicObject>,
    pub(super) instances: Cache<DynamicObject>,
    pub(super) migrations: Cache<DynamicObject>,
    pub(super) configs: Cache<DynamicObject>,
    pub(super) machine_kind: ApiResource,
    pub(super) instance_kind: ApiResource,
    pub(super) migration_kind: ApiResource,
    /// Event recorder of virt-controller.
    pub(super) controller: Events,
    /// Event recorder of virt-handler.
    pub(super) handler: Events,
}

impl Context {
    /// Starts the caches of all kinds.
    pub(super) async fn start(manager: &Manager, client: Client, speed: f64) -> Self {
        let follow = |kind: &ApiResource| {
            let (cache, running) = Cache::follow(Api::all_with(client.clone(), kind));
            manager.spawn(running);
            cache
        };
        let machine_kind = kubevirt("VirtualMachine");
        let instance_kind = kubevirt("VirtualMachineInstance");
        let migration_kind = kubevirt("VirtualMachineInstanceMigration");
        let context = Self {
            speed,
            pace: Pace::new(speed),
            nodes: manager.cache(),
            pods: manager.cache(),
            machines: follow(&machine_kind),
            instances: follow(&instance_kind),
            migrations: follow(&migration_kind),
            configs: follow(&kubevirt("KubeVirt")),
            machine_kind,
            instance_kind,
            migration_kind,
            controller: manager.events("virtualmachine-controller"),
            handler: manager.events("virt-handler"),
            client,
        };
        tokio::join!(
            context.nodes.synced(),
            context.pods.synced(),
            context.machines.synced(),
            context.instances.synced(),
            context.migrations.synced(),
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
        let uid = instance.uid.as_deref().unwrap_or_default();
        let pods = self.pods.controlled_by(uid);
        pods.iter().map(|pod| Launcher::of(pod)).collect()
    }

    pub(super) fn api(&self, kind: &ApiResource, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, kind)
    }

    /// Updates an instance; fails with a conflict if it changed since it was read, or if an
    /// admission webhook denies it.
    pub(super) async fn update_instance(&self, instance: &DynamicObject) -> Result<(), Error> {
        let key = Key::of(&instance.metadata);
        let written = self
            .api(&self.instance_kind, &key.namespace)
            .replace(&key.name, &PostParams::default(), instance)
            .await
            .not_found_as_none()
            .map_err(Error::api(format!("update instance {key}")))?;
        if let Some(written) = written {
            self.instances.saw(&written).await;
        }
        Ok(())
    }

    /// Adds or removes a finalizer of an object. The cache has the change when this returns.
    pub(super) async fn finalize(
        &self,
        (cache, kind): (&Cache<DynamicObject>, &ApiResource),
        object: &DynamicObject,
        finalizer: &str,
        wanted: bool,
    ) -> Result<(), Error> {
        let key = Key::of(&object.metadata);
        let mut all = object.metadata.finalizers.clone().unwrap_or_default();
        all.retain(|one| one != finalizer);
        if wanted {
            all.push(finalizer.to_owned());
        }
        let patch = json!({ "metadata": {
            "uid": object.metadata.uid,
            "resourceVersion": object.metadata.resource_version,
            "finalizers": all,
        }});
        self.api(kind, &key.namespace)
            .patch(&key.name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .not_found_as_none()
            .map_err(Error::api(format!("patch {} {key}", kind.kind)))?;
        let uid = object.metadata.uid.clone();
        cache
            .shows(&key, |now| {
                now.is_none_or(|now| {
                    let has = now.metadata.finalizers.iter().flatten();
                    now.metadata.uid != uid || has.into_iter().any(|one| one == finalizer) == wanted
                })
            })
            .await;
        Ok(())
    }

    /// Creates a pod.
    pub(super) async fn create_pod(&self, namespace: &str, pod: Value) -> Result<Pod, Error> {
        let what = || format!("create a launcher in {namespace}");
        let pod: Pod = serde_json::from_value(pod)
            .map_err(|error| Error::Invalid(format!("{}: {error}", what())))?;
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let made = api
            .create(&PostParams::default(), &pod)
            .await
            .map_err(Error::api(what()))?;
        self.pods.saw(&made).await;
        Ok(made)
    }

    /// Deletes a pod, with a precondition on its UID.
    pub(super) async fn delete_pod(&self, namespace: &str, pod: &Launcher) -> Result<(), Error> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let deleted = api
            .delete(&pod.name, &only(&pod.uid))
            .await
            .not_found_as_none();
        settled(deleted).map_err(Error::api(format!("delete pod {namespace}/{}", pod.name)))?;
        let meta = ObjectMeta {
            namespace: Some(namespace.to_owned()),
            name: Some(pod.name.clone()),
            uid: Some(pod.uid.clone()),
            ..ObjectMeta::default()
        };
        self.pods.wait_for_deletion(&meta).await;
        Ok(())
    }

    /// Deletes an instance, with a precondition on its UID.
    pub(super) async fn delete_instance(&self, instance: &DynamicObject) -> Result<(), Error> {
        let key = Key::of(&instance.metadata);
        let uid = instance.metadata.uid.as_deref().unwrap_or_default();
        let api = self.api(&self.instance_kind, &key.namespace);
        let deleted = api.delete(&key.name, &only(uid)).await.not_found_as_none();
        settled(deleted).map_err(Error::api(format!("delete instance {key}")))?;
        self.instances.wait_for_deletion(&instance.metadata).await;
        Ok(())
    }
}

fn only(uid: &str) -> DeleteParams {
    DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    }
}

/// The object is gone, even if another one has its name by now.
fn settled<T>(deleted: Result<T, kube::Error>) -> Result<(), kube::Error> {
    match deleted {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        other => other.map(drop),
    }
}
