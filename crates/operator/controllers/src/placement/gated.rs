//! State of the gated pods: inspection results, backoff, and why a pod is held.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use ::placement::{
    FIRST_RETRY_DELAY, GateWait, Inspection, NextInspection, final_result, give_up,
    next_inspection, retry_delay,
};
use cluster_view::placement::Failure;
use parking_lot::Mutex;
use runtime::Key;
use tokio::time::Instant;

/// State of all gated pods, shared by clones.
#[derive(Clone, Default)]
pub(super) struct GatedPods {
    pods: Arc<Mutex<HashMap<Key, GatedPod>>>,
}

/// State of a gated pod.
struct GatedPod {
    uid: String,
    policy: String,
    /// When this process first saw the pod: time before a restart of the operator does not count against the gate
    /// timeout.
    since: Instant,
    inspecting: bool,
    /// Inspections so far; another one means that the last failed.
    inspections: u32,
    /// Earliest next inspection.
    next: Instant,
    inspected: BTreeMap<String, Result<Inspection, Failure>>,
    held: Option<HoldReason>,
}

/// Why no node can run a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HoldReason {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl GatedPods {
    /// Records a gated pod and its policy. A pod recreated under the same name starts anew.
    pub(super) fn upsert(&self, key: &Key, uid: &str, policy: &str) {
        let mut pods = self.pods.lock();
        let known = pods.get_mut(key).filter(|known| known.uid == uid);
        if let Some(known) = known {
            policy.clone_into(&mut known.policy);
            return;
        }
        let now = Instant::now();
        let waiting = GatedPod {
            uid: uid.to_owned(),
            policy: policy.to_owned(),
            since: now,
            inspecting: false,
            inspections: 0,
            next: now,
            inspected: BTreeMap::new(),
            held: None,
        };
        pods.insert(key.clone(), waiting);
    }

    /// Removes a pod that is not gated any more; returns whether it was.
    pub(super) fn forget(&self, key: &Key) -> bool {
        self.pods.lock().remove(key).is_some()
    }

    pub(super) fn keys(&self) -> Vec<Key> {
        self.pods.lock().keys().cloned().collect()
    }

    /// Time since this process first saw the pod.
    pub(super) fn waited(&self, key: &Key) -> Duration {
        let pods = self.pods.lock();
        pods.get(key)
            .map(|it| it.since.elapsed())
            .unwrap_or_default()
    }

    /// Next action for a pod, given the gate timeout of its policy.
    pub(super) fn next_inspection(&self, key: &Key, timeout: Duration) -> NextInspection {
        let mut pods = self.pods.lock();
        let Some(waiting) = pods.get_mut(key) else {
            // The pod was forgotten after the caller looked it up; the requeued key finds it released.
            return NextInspection::Later(FIRST_RETRY_DELAY);
        };
        let now = Instant::now();
        let wait = GateWait {
            waited: now.saturating_duration_since(waiting.since),
            inspecting: waiting.inspecting,
            backoff: waiting.next.saturating_duration_since(now),
        };
        let next = next_inspection(wait, timeout);
        // Set under the same lock as the decision: two workers cannot both start an inspection of one pod.
        waiting.inspecting |= matches!(next, NextInspection::Now(_));
        next
    }

    /// Records inspection results, and the delay before the next inspection.
    pub(super) fn record(&self, key: &Key, inspected: Vec<(String, Result<Inspection, Failure>)>) {
        let mut pods = self.pods.lock();
        let Some(waiting) = pods.get_mut(key) else {
            return;
        };
        waiting.inspecting = false;
        let mut retry_after = Duration::ZERO;
        for (image, result) in inspected {
            if let Err(failure) = &result {
                retry_after = retry_after.max(failure.retry_after.unwrap_or_default());
            }
            waiting.inspected.insert(image, result);
        }
        waiting.next = Instant::now() + retry_delay(waiting.inspections, retry_after);
        waiting.inspections = waiting.inspections.saturating_add(1);
    }

    /// The result for an image, if it is known or inspecting again cannot help.
    pub(super) fn known(&self, key: &Key, image: &str) -> Option<Inspection> {
        let inspected = self.pods.lock().get(key)?.inspected.get(image)?.clone();
        final_result(inspected.map_err(|failure| failure.known))
    }

    /// The result for an image whose gate timeout has passed.
    pub(super) fn given_up(&self, key: &Key, image: &str, timeout: Duration) -> Inspection {
        let pods = self.pods.lock();
        let inspected = pods.get(key).and_then(|it| it.inspected.get(image));
        let failure = inspected.and_then(|it| it.as_ref().err());
        give_up(failure.map(|it| it.known.message.as_str()), timeout)
    }

    /// Records why a pod is held; returns whether that changed.
    pub(super) fn hold(&self, key: &Key, held: HoldReason) -> bool {
        let mut pods = self.pods.lock();
        let Some(waiting) = pods.get_mut(key) else {
            return true;
        };
        let changed = waiting.held.as_ref() != Some(&held);
        waiting.held = Some(held);
        changed
    }

    pub(super) fn is_held(&self, key: &Key) -> bool {
        let pods = self.pods.lock();
        pods.get(key).is_some_and(|waiting| waiting.held.is_some())
    }

    /// Every pod with its policy, and the reason if it is held.
    pub(super) fn all(&self) -> Vec<(Key, String, Option<&'static str>)> {
        let pods = self.pods.lock();
        let pods = pods.iter().map(|(key, it)| {
            let held = it.held.as_ref().map(|held| held.reason);
            (key.clone(), it.policy.clone(), held)
        });
        pods.collect()
    }
}
