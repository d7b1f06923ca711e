//! Detects disrupted pods that are gone although a pod of the same name exists.
//!
//! A budget's status names the pods that evictions have disrupted. StatefulSets recreate pods under
//! the same name, often before the budget is reconciled: the new pod would be mistaken for the
//! disrupted one, and block further evictions for two minutes. Resource versions distinguish them,
//! as one counter covers all objects: an entry recorded before a pod's last observation refers to
//! that pod, not to its successor.

use std::collections::{HashMap, HashSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::Mutex;
use runtime::{Change, Key};

/// How long a deleted pod is remembered: longer than a budget names it.
const RETENTION: SignedDuration = SignedDuration::from_mins(5);

#[derive(Debug, Default)]
pub(super) struct Memory {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By budget and pod: the recorded time, and the resource version at which it was first
    /// observed.
    noted: HashMap<Key, HashMap<String, (Timestamp, u64)>>,
    /// The last resource versions of deleted pods, and the time of deletion.
    gone: HashMap<Key, (u64, Timestamp)>,
}

impl Memory {
    /// Records the entries of a budget.
    pub(super) fn note(&self, change: &Change<PodDisruptionBudget>) {
        let Some(budget) = change.object() else {
            return;
        };
        let key = Key::of(&budget.metadata);
        let mut state = self.state.lock();
        let before = state.noted.remove(&key).unwrap_or_default();
        let Some(budget) = &change.new else { return };
        let at = revision(&budget.metadata);
        let named = budget
            .status
            .iter()
            .flat_map(|status| status.disrupted_pods.iter().flatten());
        let noted: HashMap<_, _> = named
            .map(|(name, time)| {
                let known = before.get(name).filter(|(known, _)| *known == time.0);
                (name.clone(), known.copied().unwrap_or((time.0, at)))
            })
            .collect();
        if !noted.is_empty() {
            state.noted.insert(key, noted);
        }
    }

    /// Records a deleted pod.
    pub(super) fn see(&self, change: &Change<Pod>, now: Timestamp) {
        let Some(old) = &change.old else { return };
        let new = change.new.as_ref();
        if new.is_some_and(|new| new.metadata.uid == old.metadata.uid) {
            return;
        }
        let mut state = self.state.lock();
        state
            .gone
            .retain(|_, (_, since)| now.duration_since(*since) < RETENTION);
        let last = revision(&old.metadata);
        state.gone.insert(Key::of(&old.metadata), (last, now));
    }

    /// Entries of a budget that refer to deleted pods.
    pub(super) fn stale_entries(&self, budget: &Key) -> HashSet<String> {
        let state = self.state.lock();
        let noted = state.noted.get(budget).into_iter().flatten();
        noted
            .filter(|(name, (_, at))| {
                let pod = Key::new(budget.namespace.as_str(), name.as_str());
                state.gone.get(&pod).is_some_and(|(last, _)| at <= last)
            })
            .map(|(name, _)| name.clone())
            .collect()
    }
}

fn revision(meta: &ObjectMeta) -> u64 {
    let text = meta.resource_version.as_deref();
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}
