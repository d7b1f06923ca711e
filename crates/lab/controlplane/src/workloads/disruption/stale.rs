//! Clears stale `DisruptionTarget` conditions of pods that were not disrupted.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use runtime::{Absent as _, Cache, Error, Key, Manager, Next, Queue, Reconcile, Writer};
use serde_json::json;

use super::super::pods::is_active;

const WORKERS: usize = 1;
/// How long the condition may stay true without a deletion.
const CONDITION_TIMEOUT: SignedDuration = SignedDuration::from_mins(2);
const CONDITION: &str = "DisruptionTarget";

/// Starts the controller; the cache has been synced.
pub(super) fn start(manager: &Manager, pods: &Cache<Pod>) {
    let queue = Queue::<Key>::new();
    let found = queue.clone();
    pods.on_change(move |change| {
        let Some(pod) = &change.new else { return };
        if let Some(wait) = stale_in(pod, Timestamp::now()) {
            found.add_after(Key::of(&pod.metadata), wait);
        }
    });
    let controller = Stale {
        writer: Writer::namespaced(manager.client()).shown_by(pods),
        pods: pods.clone(),
    };
    manager.start(controller, &queue, WORKERS);
}

/// Time until the condition of a pod becomes stale, if it is set and the pod is not being deleted.
pub(super) fn stale_in(pod: &Pod, now: Timestamp) -> Option<Duration> {
    let mut conditions = pod.status.as_ref()?.conditions.iter().flatten();
    let condition = conditions.find(|condition| condition.type_ == CONDITION)?;
    let by_node = condition.reason.as_deref() == Some("TerminationByKubelet");
    if condition.status != "True" || by_node || !is_active(pod) {
        return None;
    }
    let since = condition.last_transition_time.as_ref().map(|time| time.0);
    let waited = now.duration_since(since.unwrap_or(Timestamp::UNIX_EPOCH));
    let left = CONDITION_TIMEOUT.saturating_sub(waited);
    Some(Duration::try_from(left).unwrap_or_default())
}

struct Stale {
    writer: Writer<Pod>,
    pods: Cache<Pod>,
}

impl Reconcile for Stale {
    fn name(&self) -> &'static str {
        "stale-pod-disruption"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(pod) = self.pods.find(key) else {
            return Ok(Next::Wait);
        };
        let now = Timestamp::now();
        match stale_in(&pod, now) {
            None => return Ok(Next::Wait),
            Some(wait) if !wait.is_zero() => return Ok(Next::After(wait)),
            Some(_) => {}
        }
        let patch = json!({
            "metadata": {
                "uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version,
            },
            "status": { "conditions": [{
                "type": CONDITION, "status": "False", "reason": null, "message": null,
                "lastTransitionTime": Time(now),
            }] },
        });
        let written = self.writer.merge_status(key, &patch).await;
        written.not_found_as_none()?;
        Ok(Next::Wait)
    }
}
