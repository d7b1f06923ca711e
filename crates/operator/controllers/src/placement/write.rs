//! Patches of gated pods. The API server lets node affinity change only while a pod is gated, so one patch sets the
//! affinity and removes the gate.

use std::collections::BTreeMap;

use ::placement::reasons::CONDITIONS;
use ::placement::{GatedDecision, Notice, changes};
use api::reasons::says;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Api;
use kube::api::{Patch, PatchParams};
use runtime::{Error, Key};
use serde_json::{Value, json};
use tracing::warn;

use super::gated::HoldReason;
use super::{COMPONENT, PlacementController};

/// Condition of pods that are or were held.
const CONDITION: &str = "medley.dev/Placed";

impl PlacementController {
    /// Removes the gate, with node affinity. If the API server rejects the affinity, removes the gate alone: no other
    /// controller would, and the pod would stay unscheduled.
    pub(super) async fn release(
        &self,
        pod: &Pod,
        before: &Value,
        after: &Value,
        notice: &Notice,
    ) -> Result<(), Error> {
        let key = Key::of(&pod.metadata);
        let held = self.gated.is_held(&key);
        match self.write(pod, before, after).await {
            Err(error) if error.code() == Some(422) => {
                warn!(pod = %key, %error, "cannot set node affinity; releasing the pod without it");
                let settings = self.watch.settings();
                let as_it_is = self.settled(before, None, &settings, &BTreeMap::new());
                if let GatedDecision::Release { pod: after, .. } = as_it_is {
                    self.write(pod, before, &after).await?;
                }
                let notice = Notice {
                    warning: true,
                    reason: "NotPlaced",
                    message: format!("released without node affinity: {error}"),
                };
                self.finish_release(&key, pod, &notice);
                return Ok(());
            }
            written => written?,
        }
        if held {
            self.condition(pod, true, notice).await?;
        }
        self.finish_release(&key, pod, notice);
        Ok(())
    }

    /// Keeps a pod gated until a suitable node appears, and emits the reason once.
    pub(super) async fn hold(
        &self,
        key: &Key,
        pod: &Pod,
        (before, after): (&Value, &Value),
        notice: &Notice,
    ) -> Result<(), Error> {
        self.write(pod, before, after).await?;
        let held = HoldReason {
            reason: notice.reason,
            message: notice.message.clone(),
        };
        if self.gated.hold(key, held) {
            self.condition(pod, false, notice).await?;
            self.events.warning(pod, notice.reason, &notice.message);
        }
        Ok(())
    }

    async fn write(&self, pod: &Pod, before: &Value, after: &Value) -> Result<(), Error> {
        let mut patch = changes(before, after);
        if patch.is_empty() {
            return Ok(());
        }
        let revision = &pod.metadata.resource_version;
        patch.push(json!({ "op": "add", "path": "/metadata/resourceVersion", "value": revision }));
        let (api, name) = self.api(pod);
        let operation = format!("patching pod {}", Key::of(&pod.metadata));
        let patch = serde_json::from_value(patch.into())
            .map_err(|error| Error::Invalid(format!("{operation}: {error}")))?;
        let written = api
            .patch(name, &patch_params(), &Patch::Json::<()>(patch))
            .await
            .map_err(Error::api(operation))?;
        self.pods.saw(&written).await;
        Ok(())
    }

    /// Writes the condition [`CONDITION`] of a pod.
    async fn condition(&self, pod: &Pod, placed: bool, notice: &Notice) -> Result<(), Error> {
        let now = Timestamp::now();
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        let status = if placed { "True" } else { "False" };
        debug_assert!(
            says(CONDITIONS, CONDITION, status, notice.reason),
            "{CONDITION}={status} {} is not explained",
            notice.reason
        );
        let patch = json!({ "status": { "conditions": [{
            "type": CONDITION, "status": status, "reason": notice.reason,
            "message": notice.message, "lastTransitionTime": Time(now),
        }] } });
        let (api, name) = self.api(pod);
        let operation = format!("writing the status of pod {}", Key::of(&pod.metadata));
        let written = api
            .patch_status(name, &patch_params(), &Patch::Strategic(patch))
            .await
            .map_err(Error::api(operation))?;
        self.pods.saw(&written).await;
        Ok(())
    }

    fn api<'a>(&self, pod: &'a Pod) -> (Api<Pod>, &'a str) {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        (Api::namespaced(self.client.clone(), namespace), name)
    }
}

fn patch_params() -> PatchParams {
    PatchParams {
        field_manager: Some(COMPONENT.to_owned()),
        ..PatchParams::default()
    }
}
