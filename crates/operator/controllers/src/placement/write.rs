//! Patches of gated pods. The API server lets node affinity change only while a pod is gated, so one patch sets the
//! affinity and removes the gate.

use ::placement::Notice;
use ::placement::reasons::CONDITIONS;
use api::reasons::has_condition;
use cluster_view::placement::{write_changes, write_release};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Api;
use runtime::{Error, Key, Writer};
use serde_json::{Value, json};

use super::gated::HoldReason;
use super::{COMPONENT, PlacementController};

/// Condition of pods that are or were held.
const CONDITION: &str = "medley.dev/Placed";

impl PlacementController {
    /// Removes the gate, with node affinity; without it if the API server rejects the affinity.
    pub(super) async fn release(
        &self,
        pod: &Pod,
        before: &Value,
        after: &Value,
        notice: Notice,
    ) -> Result<(), Error> {
        let key = Key::of(&pod.metadata);
        let held = self.gated.is_held(&key);
        let writer = self.writer(pod);
        let notice = write_release(&writer, &pod.metadata, before, after, notice).await?;
        // Only pods that were held get the condition: writing it for every pod
        // would double the writes of each release.
        if held {
            self.condition(pod, true, &notice).await?;
        }
        self.finish_release(&key, pod, &notice);
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
        write_changes(&self.writer(pod), &pod.metadata, before, after).await?;
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

    /// Writes the condition [`CONDITION`] of a pod.
    async fn condition(&self, pod: &Pod, placed: bool, notice: &Notice) -> Result<(), Error> {
        let now = Timestamp::now();
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        let status = if placed { "True" } else { "False" };
        debug_assert!(
            has_condition(CONDITIONS, CONDITION, status, notice.reason),
            "{CONDITION}={status} {} is not explained",
            notice.reason
        );
        let patch = json!({ "status": { "conditions": [{
            "type": CONDITION, "status": status, "reason": notice.reason,
            "message": notice.message, "lastTransitionTime": Time(now),
        }] } });
        let key = Key::of(&pod.metadata);
        self.writer(pod).merge_status(&key, &patch).await?;
        Ok(())
    }

    fn writer(&self, pod: &Pod) -> Writer<Pod> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let api = Api::namespaced(self.client.clone(), namespace);
        Writer::new(api, COMPONENT).shown_by(&self.pods)
    }
}
