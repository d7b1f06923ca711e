//! Carries out the steps of a plan, each of which can be repeated.

use std::time::Duration;

use anyhow::{Context as _, bail};
use api::kubevirt::VirtualMachine;
use cpu_models::names::BEST_MATCH_MODEL;
use edits::release_pod;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, DynamicObject, PropagationPolicy};
use kube::core::ApiResource;
use kube::{Api, Client};
use manifests::uninstall::{Change, ObjectRef, Step};
use runtime::{Absent as _, Key, Writer};
use serde_json::json;

use super::gather::resource;
use crate::governance::configs::MANAGER;
use crate::read::api_error;

/// How often the pods of Medley are listed until they have ended.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Changes objects in the name of the user.
pub(super) struct Executor {
    client: Client,
    dry_run: bool,
}

impl Executor {
    pub(super) fn new(client: &Client, dry_run: bool) -> Self {
        let client = client.clone();
        Self { client, dry_run }
    }

    /// Executes a step. An object that is gone, or that was changed as planned, is no error.
    pub(super) async fn execute(&self, step: &Step) -> anyhow::Result<()> {
        let object = &step.object;
        match &step.change {
            Change::Delete => self.delete(object).await,
            Change::ScaleToZero => {
                let patch = json!({ "spec": { "replicas": 0 } });
                self.patch(object, &resource(object), &patch).await
            }
            Change::Release => self.release(object).await,
            Change::SetCpuModel(model) => self.set_model(object, model).await,
            Change::SetFinalizers(finalizers) => {
                // The whole list: a merge patch cannot remove one entry.
                let kind = &resource(object);
                let current = self.read(object, kind).await?;
                let Some(version) = current.and_then(|it| it.metadata.resource_version) else {
                    return Ok(());
                };
                let patch = json!({ "metadata": {
                    "resourceVersion": version, "finalizers": finalizers,
                } });
                self.patch(object, kind, &patch).await
            }
            Change::AwaitEnd => Ok(()),
        }
    }

    fn api(&self, object: &ObjectRef, kind: &ApiResource) -> Api<DynamicObject> {
        match &object.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, kind),
            None => Api::all_with(self.client.clone(), kind),
        }
    }

    async fn read(
        &self,
        object: &ObjectRef,
        kind: &ApiResource,
    ) -> anyhow::Result<Option<DynamicObject>> {
        let found = self.api(object, kind).get(&object.name).await;
        let found = found.not_found_as_none();
        found.map_err(|error| api_error(error).context(format!("reading {object}")))
    }

    async fn delete(&self, object: &ObjectRef) -> anyhow::Result<()> {
        let writer: Writer<DynamicObject> =
            Writer::dynamic(self.client.clone(), &resource(object)).dry_run(self.dry_run);
        let background = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        writer.delete_with(&metadata(object), background).await?;
        Ok(())
    }

    async fn patch(
        &self,
        object: &ObjectRef,
        kind: &ApiResource,
        patch: &serde_json::Value,
    ) -> anyhow::Result<()> {
        let api = self.api(object, kind);
        let writer = Writer::of_kind(api, &object.kind, MANAGER).dry_run(self.dry_run);
        match writer.merge(&Key::of(&metadata(object)), patch).await {
            Err(error) if error.is_not_found() => Ok(()),
            other => Ok(other.map(drop)?),
        }
    }

    async fn release(&self, object: &ObjectRef) -> anyhow::Result<()> {
        let namespace = object.namespace.as_deref().unwrap_or_default();
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let pod = api.get(&object.name).await.not_found_as_none();
        let pod = pod.map_err(|error| api_error(error).context(format!("reading {object}")))?;
        if let Some(pod) = pod {
            release_pod(&self.client, &pod, (MANAGER, self.dry_run)).await?;
        }
        Ok(())
    }

    /// Sets the model, unless it was changed since.
    async fn set_model(&self, object: &ObjectRef, model: &str) -> anyhow::Result<()> {
        let namespace = object.namespace.as_deref().unwrap_or_default();
        let api: Api<VirtualMachine> = Api::namespaced(self.client.clone(), namespace);
        let found = api.get(&object.name).await.not_found_as_none();
        let found = found.map_err(|error| api_error(error).context(format!("reading {object}")))?;
        let Some(machine) = found else {
            return Ok(());
        };
        let asks = machine.spec.template.spec.model() == Some(BEST_MATCH_MODEL);
        if machine.metadata.uid != object.uid || !asks {
            return Ok(());
        }
        let path = "/spec/template/spec/domain/cpu/model";
        let steps = vec![
            json!({ "op": "test", "path": path, "value": BEST_MATCH_MODEL }),
            json!({ "op": "replace", "path": path, "value": model }),
        ];
        let writer = Writer::new(api, MANAGER).dry_run(self.dry_run);
        // Conflicts are frequent: KubeVirt writes the status of a machine that starts.
        for _ in 0..ATTEMPTS {
            let current = Api::<VirtualMachine>::namespaced(self.client.clone(), namespace)
                .get(&object.name)
                .await
                .not_found_as_none();
            let current =
                current.map_err(|error| api_error(error).context(format!("reading {object}")))?;
            let Some(current) = current else {
                return Ok(());
            };
            match writer.json_patch(&current.metadata, steps.clone()).await {
                Err(error) if error.is_conflict() => {}
                other => {
                    return other
                        .map(drop)
                        .with_context(|| format!("setting the CPU model of {object}"));
                }
            }
        }
        bail!("{object} changed during each of {ATTEMPTS} attempts to set its CPU model")
    }
}

/// Attempts to write a change that conflicts with other writers.
const ATTEMPTS: usize = 10;

fn metadata(object: &ObjectRef) -> ObjectMeta {
    ObjectMeta {
        name: Some(object.name.clone()),
        namespace: object.namespace.clone(),
        uid: object.uid.clone(),
        ..ObjectMeta::default()
    }
}
