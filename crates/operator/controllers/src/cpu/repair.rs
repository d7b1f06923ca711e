//! What slipped through while nobody checked: launchers that no node can run, and instances that were
//! handed over without a model.

use std::time::Duration;

use api::kubevirt::{VirtualMachineInstance, phases};
use cpu_models::instance::recorded;
use cpu_models::launcher::is_undecided;
use cpu_models::names::{ASKED_ANNOTATION, BEST_MATCH_MODEL};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, ResourceExt as _};
use runtime::{Absent as _, Error, Key, Next};
use serde_json::json;
use tracing::debug;

use super::{COMPONENT, CpuModels};

/// How often an instance that waits is looked at.
const LOOK: Duration = Duration::from_secs(5);
/// What the API server says if a check lets a request not pass, whatever its code: `admission webhook
/// "..." denied the request: ...`.
const DENIED: &str = "denied the request";

impl CpuModels {
    /// Puts an instance without a model right, if it can be. Before the check is registered, whatever is
    /// made anew would be as wrong as before.
    pub(super) async fn repair(
        &self,
        key: &Key,
        instance: &VirtualMachineInstance,
    ) -> Result<Next, Error> {
        if self.registration.is_empty() {
            return Ok(Next::Wait);
        }
        match instance.phase() {
            phases::SCHEDULED | phases::RUNNING => self.write_again(key, instance).await?,
            _ => {
                self.replace_launchers(key, instance, |pod| {
                    let spec = pod.spec.as_ref();
                    let selector = spec.and_then(|spec| spec.node_selector.as_ref());
                    selector.is_some_and(is_undecided)
                })
                .await?;
            }
        }
        Ok(Next::After(LOOK))
    }

    /// Writes an instance that was handed over without a model once more, to be checked this time.
    ///
    /// KubeVirt's own check lets nobody but KubeVirt change the spec of an instance. Where that is in the
    /// way, the instance is given up: it cannot start as it is.
    async fn write_again(&self, key: &Key, instance: &VirtualMachineInstance) -> Result<(), Error> {
        let api: Api<VirtualMachineInstance> = Api::namespaced(self.client.clone(), &key.namespace);
        let patch = json!({ "metadata": {
            "resourceVersion": instance.metadata.resource_version,
            "annotations": { ASKED_ANNOTATION: BEST_MATCH_MODEL },
        } });
        let params = PatchParams {
            field_manager: Some(COMPONENT.to_owned()),
            ..PatchParams::default()
        };
        match api.patch(&key.name, &params, &Patch::Merge(patch)).await {
            Ok(written) => {
                if let Some(model) = recorded(&written) {
                    self.report.repaired("instance");
                    let message =
                        format!("it was handed over without a CPU model; now it has {model}");
                    self.events.normal(instance, "CpuModelRepaired", message);
                }
                self.instances.saw(&written).await;
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.message.contains(DENIED) => {
                debug!(%key, message = status.message, "KubeVirt does not let an instance be changed");
                self.replace_launchers(key, instance, |_| true).await
            }
            Err(error) => Err(Error::api(format!(
                "writing VirtualMachineInstance {key} again"
            ))(error)),
        }
    }

    /// Removes launchers of an instance that will not do. KubeVirt takes that for the end of the
    /// instance, and its VirtualMachine starts another.
    async fn replace_launchers(
        &self,
        key: &Key,
        instance: &VirtualMachineInstance,
        wrong: impl Fn(&Pod) -> bool,
    ) -> Result<(), Error> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        let pods = self.pods(instance).into_iter();
        for pod in pods.filter(|pod| pod.metadata.deletion_timestamp.is_none() && wrong(pod)) {
            let name = pod.name_any();
            let params = DeleteParams {
                preconditions: Some(Preconditions {
                    uid: pod.metadata.uid.clone(),
                    resource_version: None,
                }),
                ..DeleteParams::default()
            };
            let deleted = api.delete(&name, &params).await.or_absent();
            let deleted = deleted.map_err(Error::api(format!("deleting pod {name} of {key}")))?;
            if deleted.is_some() {
                self.report.repaired("launcher");
                let message = format!(
                    "deleted its pod {name}, which no node could ever run: it was made while nobody chose CPU models"
                );
                self.events.warning(instance, "LauncherRemoved", message);
            }
        }
        Ok(())
    }
}
