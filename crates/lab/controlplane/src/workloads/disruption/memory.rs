//! Which pods that were let go are gone, although there is a pod of that name again.
//!
//! A budget names the pods that evictions let go. The pods of a StatefulSet come back under their
//! names, often before anybody has looked: the new pod is then taken for the one that was let go,
//! and nothing more may go for two minutes. Revisions tell them apart, which are one counter for all
//! objects: what was noted before a pod was last seen is about that pod, and not about the next.

use std::collections::{HashMap, HashSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::Mutex;
use runtime::{Change, Key};

/// How long a pod that is gone is remembered: longer than a budget names it.
const REMEMBERED: SignedDuration = SignedDuration::from_mins(5);

#[derive(Debug, Default)]
pub(super) struct Memory {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By budget and pod: the time that is noted, and the revision it was first seen at.
    noted: HashMap<Key, HashMap<String, (Timestamp, u64)>>,
    /// The revisions that pods were last seen at before they were gone, and when that was.
    gone: HashMap<Key, (u64, Timestamp)>,
}

impl Memory {
    /// Remembers since when a budget names pods.
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

    /// Remembers that a pod is gone, if it is.
    pub(super) fn see(&self, change: &Change<Pod>, now: Timestamp) {
        let Some(old) = &change.old else { return };
        let new = change.new.as_ref();
        if new.is_some_and(|new| new.metadata.uid == old.metadata.uid) {
            return;
        }
        let mut state = self.state.lock();
        state
            .gone
            .retain(|_, (_, since)| now.duration_since(*since) < REMEMBERED);
        let last = revision(&old.metadata);
        state.gone.insert(Key::of(&old.metadata), (last, now));
    }

    /// The names in a budget that are about pods which are gone.
    pub(super) fn outlived(&self, budget: &Key) -> HashSet<String> {
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
