//! State of the gated pods: inspection results, backoff, and why a pod is held.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use ::placement::{Inspection, Uninspectable};
use cluster_view::placement::Failure;
use parking_lot::Mutex;
use runtime::Key;
use tokio::time::Instant;

/// First delay after a failed inspection; it doubles with every further failure.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(500);
/// Upper bound of the delay.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);

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
    failures: u32,
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

/// Next action for a pod with unknown images.
pub(super) enum NextInspection {
    /// Inspect now; requeue after this delay at the latest.
    Now(Duration),
    /// An inspection is running or backing off; requeue after this delay at the latest.
    Later(Duration),
    /// The gate timeout has passed.
    TimedOut,
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
            failures: 0,
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
            return NextInspection::Later(FIRST_RETRY_DELAY);
        };
        let now = Instant::now();
        let left = (waiting.since + timeout).saturating_duration_since(now);
        if left.is_zero() {
            return NextInspection::TimedOut;
        }
        let early = waiting.next.saturating_duration_since(now);
        if waiting.inspecting {
            NextInspection::Later(left)
        } else if early.is_zero() {
            waiting.inspecting = true;
            NextInspection::Now(left)
        } else {
            NextInspection::Later(left.min(early))
        }
    }

    /// Records inspection results, and the delay before the next inspection.
    pub(super) fn record(&self, key: &Key, inspected: Vec<(String, Result<Inspection, Failure>)>) {
        let mut pods = self.pods.lock();
        let Some(waiting) = pods.get_mut(key) else {
            return;
        };
        waiting.inspecting = false;
        let mut pause = Duration::ZERO;
        for (image, result) in inspected {
            if let Err(failure) = &result {
                pause = pause.max(failure.retry_after.unwrap_or_default());
            }
            waiting.inspected.insert(image, result);
        }
        let doubled = FIRST_RETRY_DELAY.saturating_mul(1 << waiting.failures.min(10));
        waiting.failures = waiting.failures.saturating_add(1);
        waiting.next = Instant::now() + doubled.min(MAX_RETRY_DELAY).max(pause);
    }

    /// The result for an image, if it is known or inspecting again cannot help.
    pub(super) fn known(&self, key: &Key, image: &str) -> Option<Inspection> {
        match self.pods.lock().get(key)?.inspected.get(image)? {
            Ok(known) => Some(known.clone()),
            Err(failure) => (!failure.known.passing).then(|| failure.knowledge()),
        }
    }

    /// The result for an image whose gate timeout has passed.
    pub(super) fn given_up(&self, key: &Key, image: &str, timeout: Duration) -> Inspection {
        let pods = self.pods.lock();
        let inspected = pods.get(key).and_then(|it| it.inspected.get(image));
        let why = match inspected {
            Some(Err(failure)) => failure.known.message.clone(),
            _ => "the registry did not answer".to_owned(),
        };
        Inspection::Uninspectable(Uninspectable {
            message: format!("{why} (gave up after {} s)", timeout.as_secs()),
            passing: true,
        })
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
