//! Repair of objects created while the webhook was not called: launchers that no node can run, and instances handed
//! over without a model.

use std::time::Duration;

use api::kubevirt::{VirtualMachineInstance, phases};
use cpu_models::instance::recorded;
use cpu_models::launcher::is_undecided;
use cpu_models::names::{BEST_MATCH_MODEL, REQUESTED_MODEL_ANNOTATION};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, ResourceExt as _};
use runtime::{Absent as _, Error, Key, Next};
use serde_json::json;
use tracing::debug;

use super::{COMPONENT, CpuModelController};

/// Requeue interval of an instance without a model.
const REPAIR_INTERVAL: Duration = Duration::from_secs(5);
/// Part of the API server's message when a webhook denies a request, whatever its code: `admission webhook "..." denied
/// the request: ...`.
const WEBHOOK_DENIAL: &str = "denied the request";

impl CpuModelController {
    /// Repairs an instance without a model. Waits until the webhook is registered: replacements would be wrong in the
    /// same way before.
    pub(super) async fn repair(
        &self,
        key: &Key,
        instance: &VirtualMachineInstance,
    ) -> Result<Next, Error> {
        if self.registration.is_empty() {
            return Ok(Next::Wait);
        }
        match instance.phase() {
            phases::SCHEDULED | phases::RUNNING => self.rewrite(key, instance).await?,
            _ => {
                self.replace_launchers(key, instance, |pod| {
                    let spec = pod.spec.as_ref();
                    let selector = spec.and_then(|spec| spec.node_selector.as_ref());
                    selector.is_some_and(is_undecided)
                })
                .await?;
            }
        }
        Ok(Next::After(REPAIR_INTERVAL))
    }

    /// Rewrites an instance that was handed over without a model, so that admission chooses one.
    ///
    /// KubeVirt's own webhook allows only KubeVirt to change the spec of an instance. Where it denies the write, the
    /// launchers are deleted instead: without a model the instance cannot start.
    async fn rewrite(&self, key: &Key, instance: &VirtualMachineInstance) -> Result<(), Error> {
        let api: Api<VirtualMachineInstance> = Api::namespaced(self.client.clone(), &key.namespace);
        let patch = json!({ "metadata": {
            "resourceVersion": instance.metadata.resource_version,
            "annotations": { REQUESTED_MODEL_ANNOTATION: BEST_MATCH_MODEL },
        } });
        let params = PatchParams {
            field_manager: Some(COMPONENT.to_owned()),
            ..PatchParams::default()
        };
        match api.patch(&key.name, &params, &Patch::Merge(patch)).await {
            Ok(written) => {
                if let Some(model) = recorded(&written) {
                    self.report.count_repair("instance");
                    let message =
                        format!("the instance was handed over without a CPU model; set {model}");
                    self.events.normal(instance, "CpuModelRepaired", message);
                }
                self.instances.saw(&written).await;
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.message.contains(WEBHOOK_DENIAL) => {
                debug!(%key, message = status.message, "KubeVirt denied the change of an instance; deleting its launchers");
                self.replace_launchers(key, instance, |_| true).await
            }
            Err(error) => Err(Error::api(format!(
                "rewriting VirtualMachineInstance {key}"
            ))(error)),
        }
    }

    /// Deletes the matching launchers of an instance. KubeVirt then fails the instance, and its VirtualMachine starts
    /// another.
    async fn replace_launchers(
        &self,
        key: &Key,
        instance: &VirtualMachineInstance,
        matches: impl Fn(&Pod) -> bool,
    ) -> Result<(), Error> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        let pods = self.pods(instance).into_iter();
        for pod in pods.filter(|pod| pod.metadata.deletion_timestamp.is_none() && matches(pod)) {
            let name = pod.name_any();
            let params = DeleteParams {
                preconditions: Some(Preconditions {
                    uid: pod.metadata.uid.clone(),
                    resource_version: None,
                }),
                ..DeleteParams::default()
            };
            let deleted = api.delete(&name, &params).await.not_found_as_none();
            let deleted = deleted.map_err(Error::api(format!("deleting pod {name} of {key}")))?;
            if deleted.is_some() {
                self.report.count_repair("launcher");
                let message = format!(
                    "deleted launcher pod {name}: no node can run it, because it was created while the webhook was not called"
                );
                self.events.warning(instance, "LauncherRemoved", message);
            }
        }
        Ok(())
    }
}
