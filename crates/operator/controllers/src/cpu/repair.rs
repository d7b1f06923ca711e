//! Repair of objects created while the webhook was not called: launchers that no node can run, and instances handed
//! over without a model.

use std::time::Duration;

use api::kubevirt::VirtualMachineInstance;
use cpu_models::instance::{Repair, recorded};
use cpu_models::launcher::{Placement, is_undecided};
use cpu_models::names::{BEST_MATCH_MODEL, REQUESTED_MODEL_ANNOTATION};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt as _};
use runtime::{Error, Key, Next, Writer};
use serde_json::json;
use tracing::debug;

use super::{COMPONENT, CpuModelController};

/// Requeue interval of an instance without a model.
// The webhook may be registered and still unreachable, and nothing that is watched changes when it answers again.
const REPAIR_INTERVAL: Duration = Duration::from_secs(5);
/// Part of the API server's message when a webhook denies a request, whatever its code: `admission webhook "..." denied
/// the request: ...`.
const WEBHOOK_DENIAL: &str = "denied the request";

impl CpuModelController {
    /// Repairs an instance without a model.
    pub(super) async fn repair(
        &self,
        key: &Key,
        instance: &VirtualMachineInstance,
    ) -> Result<Next, Error> {
        match Repair::of(instance, !self.registration.is_empty()) {
            Repair::AwaitWebhook => return Ok(Next::Wait),
            Repair::Rewrite => self.rewrite(key, instance).await?,
            Repair::DeleteLaunchers => {
                let undecided = |pod: &Pod| is_undecided(&Placement::of_pod(pod).node_selector);
                self.replace_launchers(key, instance, undecided).await?;
            }
        }
        Ok(Next::After(REPAIR_INTERVAL))
    }

    /// Rewrites an instance that was handed over without a model, so that admission chooses one.
    ///
    /// KubeVirt's own webhook allows only KubeVirt to change the spec of an instance. Where it denies the write, the
    /// launchers are deleted instead: without a model the instance cannot start.
    async fn rewrite(&self, key: &Key, instance: &VirtualMachineInstance) -> Result<(), Error> {
        let api = Api::namespaced(self.client.clone(), &key.namespace);
        let writer = Writer::new(api, COMPONENT).shown_by(&self.instances);
        let annotations = json!({ REQUESTED_MODEL_ANNOTATION: BEST_MATCH_MODEL });
        let patch = json!({ "metadata": { "annotations": annotations } });
        // With the resource version: the instance may have got its model by now, and
        // rewriting it would be a second, different choice.
        match writer.merge_into(&instance.metadata, patch).await {
            Ok(written) => {
                if let Some(model) = recorded(&written) {
                    self.report.count_repair("instance");
                    let message =
                        format!("the instance was handed over without a CPU model; set {model}");
                    self.events.normal(instance, "CpuModelRepaired", message);
                }
                Ok(())
            }
            // By text, because webhooks choose the code of their denial freely; the API server adds these words to
            // all of them.
            Err(error) if error.code().is_some() && error.to_string().contains(WEBHOOK_DENIAL) => {
                debug!(%key, %error, "KubeVirt denied the change of an instance; deleting its launchers");
                self.replace_launchers(key, instance, |_| true).await
            }
            Err(error) => Err(error),
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
        let api = Api::<Pod>::namespaced(self.client.clone(), &key.namespace);
        let writer = Writer::new(api, COMPONENT);
        let pods = self.pods(instance).into_iter();
        for pod in pods.filter(|pod| pod.metadata.deletion_timestamp.is_none() && matches(pod)) {
            // By UID: KubeVirt may have replaced the launcher under the same name, and the new one may be fine.
            if writer.delete(&pod.metadata).await? {
                let name = pod.name_any();
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
