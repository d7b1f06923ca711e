//! The next steps of a set.
//!
//! Under `OrderedReady` it takes one step at a time: pods are created upwards, each after the
//! previous one is available, and deleted downwards; an update replaces one pod after the other,
//! from the highest ordinal down. Under `Parallel` pods are created and deleted all at once, and
//! only updates are ordered.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec, StatefulSetStatus};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, PodTemplateSpec};

use super::super::pods::{is_available, is_ready, is_terminal, portion};
use super::{identity, retention};
use crate::pod::phase;

/// A template with the name of its revision.
#[derive(Debug)]
pub(super) struct Revision {
    pub(super) name: String,
    pub(super) template: PodTemplateSpec,
}

/// Inputs of the decision.
pub(super) struct StatefulSetInputs<'a> {
    pub(super) set: &'a StatefulSet,
    pub(super) spec: &'a StatefulSetSpec,
    /// Pods of the set, in any order.
    pub(super) pods: &'a [Arc<Pod>],
    /// Looks up a claim in the set's namespace.
    pub(super) claim: &'a dyn Fn(&str) -> Option<Arc<PersistentVolumeClaim>>,
    /// The revision of pods below the partition.
    pub(super) current: &'a Revision,
    /// The revision to update to.
    pub(super) update: &'a Revision,
    pub(super) collisions: i32,
    pub(super) now: Timestamp,
}

/// A single step.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum StatefulSetStep {
    /// Create the missing claims of an ordinal, then the pod.
    Create(i32, Box<Pod>),
    /// Create the missing claims of an ordinal.
    Claims(i32),
    /// Set the owners of a claim.
    Own(Box<PersistentVolumeClaim>),
    /// Restore the identity of a pod.
    Repair(Box<Pod>),
    /// Delete a pod.
    Delete(Arc<Pod>),
    /// Requeue soon: a claim has to be deleted first.
    Wait,
}

/// The steps, and the status to write.
#[derive(Debug, PartialEq)]
pub(super) struct Decision {
    /// In this order; with `together`, concurrently.
    pub(super) steps: Vec<StatefulSetStep>,
    pub(super) together: bool,
    pub(super) status: StatefulSetStatus,
}

/// An ordinal and its pod.
enum Slot {
    Pod(Arc<Pod>),
    /// There is none yet: create this one.
    Empty(Box<Pod>),
}

impl Slot {
    fn pod(&self) -> &Pod {
        match self {
            Self::Pod(pod) => pod,
            Self::Empty(pod) => pod,
        }
    }
}

/// Decides the next steps.
pub(super) fn decide(inputs: &StatefulSetInputs<'_>) -> Decision {
    let mut decision = Decision {
        steps: Vec::new(),
        together: false,
        status: inputs.status(),
    };
    if inputs.set.metadata.deletion_timestamp.is_none() {
        let Decision { steps, status, .. } = &mut decision;
        let (slots, condemned) = inputs.arrange();
        let monotonic = inputs.spec.pod_management_policy.as_deref() != Some("Parallel");
        let settled = inputs.fill(&slots, monotonic, steps)
            && inputs.shrink(&slots, &condemned, monotonic, steps);
        // An update begins when the set is complete; replacing a pod of a set that lacks another
        // could take away its quorum.
        if settled && inputs.is_rolling() {
            for pod in inputs.outdated(&slots) {
                if identity::revision(&pod) == inputs.current.name {
                    status.current_replicas = status.current_replicas.map(|count| count - 1);
                }
                let step = StatefulSetStep::Delete(pod);
                if !steps.contains(&step) {
                    steps.push(step);
                }
            }
        }
        decision.together = !monotonic;
    }
    decision.status = inputs.completed(decision.status);
    decision
}

impl StatefulSetInputs<'_> {
    fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    fn start(&self) -> i32 {
        let ordinals = self.spec.ordinals.as_ref();
        ordinals.and_then(|ordinals| ordinals.start).unwrap_or(0)
    }

    fn is_needed(&self, ordinal: i32) -> bool {
        let start = self.start();
        (start..start.saturating_add(self.replicas())).contains(&ordinal)
    }

    fn is_available(&self, pod: &Pod) -> bool {
        is_available(pod, self.spec.min_ready_seconds.unwrap_or(0), self.now)
    }

    fn is_unavailable(&self, pod: &Pod) -> bool {
        !self.is_available(pod) || is_leaving(pod)
    }

    /// The slots of the desired ordinals, lowest first, and the surplus pods, highest first.
    fn arrange(&self) -> (Vec<Slot>, Vec<Arc<Pod>>) {
        let mut slots: Vec<Option<Arc<Pod>>> = Vec::new();
        slots.resize(usize::try_from(self.replicas()).unwrap_or(0), None);
        let mut condemned: Vec<(i32, Arc<Pod>)> = Vec::new();
        for pod in self.pods {
            let Some(ordinal) = identity::ordinal(pod) else {
                continue;
            };
            let place = usize::try_from(i64::from(ordinal) - i64::from(self.start())).ok();
            match place.and_then(|place| slots.get_mut(place)) {
                Some(slot) => *slot = Some(Arc::clone(pod)),
                None => condemned.push((ordinal, Arc::clone(pod))),
            }
        }
        condemned.sort_by_key(|(ordinal, _)| std::cmp::Reverse(*ordinal));
        let slots = (self.start()..).zip(slots).map(|(ordinal, pod)| match pod {
            Some(pod) => Slot::Pod(pod),
            None => Slot::Empty(Box::new(self.fresh(ordinal))),
        });
        let condemned = condemned.into_iter().map(|(_, pod)| pod);
        (slots.collect(), condemned.collect())
    }

    /// A new pod: ordinals below the partition keep the current revision.
    fn fresh(&self, ordinal: i32) -> Pod {
        let strategy = self.spec.update_strategy.as_ref();
        let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        let kept = match rolling {
            Some(rolling) => rolling.partition.unwrap_or(0),
            None if self.is_rolling() => {
                let current = self.set.status.as_ref().and_then(|it| it.current_replicas);
                current.unwrap_or(0)
            }
            None => 0,
        };
        let revision = if ordinal < self.start().saturating_add(kept) {
            self.current
        } else {
            self.update
        };
        identity::render_pod(self.set, &revision.template, &revision.name, ordinal)
    }

    fn is_rolling(&self) -> bool {
        let strategy = self.spec.update_strategy.as_ref();
        strategy.and_then(|strategy| strategy.type_.as_deref()) != Some("OnDelete")
    }

    /// Creates missing pods; returns whether further steps may follow.
    fn fill(&self, slots: &[Slot], monotonic: bool, steps: &mut Vec<StatefulSetStep>) -> bool {
        for slot in slots {
            let pod = match slot {
                Slot::Empty(pod) => {
                    self.create(pod, steps);
                    if monotonic {
                        return false;
                    }
                    continue;
                }
                Slot::Pod(pod) => pod,
            };
            // A terminated pod keeps its name, so it has to go before its successor can be created.
            if is_terminal(pod) {
                if !is_leaving(pod) {
                    steps.push(StatefulSetStep::Delete(Arc::clone(pod)));
                }
                if monotonic {
                    return false;
                }
                continue;
            }
            if phase(pod) == "Pending" {
                self.complete_claims(pod, steps);
            }
            let waits = is_leaving(pod) || !is_running_and_ready(pod) || !self.is_available(pod);
            if monotonic && waits {
                return false;
            }
            self.own_claims(pod, steps);
            let repaired = identity::repaired(self.set, pod);
            steps.extend(repaired.map(|pod| StatefulSetStep::Repair(Box::new(pod))));
        }
        true
    }

    fn create(&self, pod: &Pod, steps: &mut Vec<StatefulSetStep>) {
        let Some(ordinal) = identity::ordinal(pod) else {
            return;
        };
        let mut claims =
            identity::claim_names(self.set, ordinal).filter_map(|name| (self.claim)(&name));
        let step = if claims.any(|claim| retention::is_stale(&claim, self.set, pod)) {
            StatefulSetStep::Wait
        } else {
            StatefulSetStep::Create(ordinal, Box::new(pod.clone()))
        };
        steps.push(step);
    }

    fn complete_claims(&self, pod: &Pod, steps: &mut Vec<StatefulSetStep>) {
        let Some(ordinal) = identity::ordinal(pod) else {
            return;
        };
        let mut names = identity::claim_names(self.set, ordinal);
        if names.any(|name| (self.claim)(&name).is_none()) {
            steps.push(StatefulSetStep::Claims(ordinal));
        }
        self.own_claims(pod, steps);
    }

    /// Sets the owners of a pod's claims by the retention policy.
    fn own_claims(&self, pod: &Pod, steps: &mut Vec<StatefulSetStep>) {
        let Some(ordinal) = identity::ordinal(pod) else {
            return;
        };
        for name in identity::claim_names(self.set, ordinal) {
            let Some(claim) = (self.claim)(&name) else {
                continue;
            };
            let owners = retention::corrected(&claim, self.set, pod, self.is_needed(ordinal));
            let Some(owners) = owners else { continue };
            let mut claim = (*claim).clone();
            claim.metadata.owner_references = Some(owners).filter(|owners| !owners.is_empty());
            let step = StatefulSetStep::Own(Box::new(claim));
            if !steps.contains(&step) {
                steps.push(step);
            }
        }
    }

    /// Deletes surplus pods; returns whether further steps may follow.
    fn shrink(
        &self,
        slots: &[Slot],
        condemned: &[Arc<Pod>],
        monotonic: bool,
        steps: &mut Vec<StatefulSetStep>,
    ) -> bool {
        for pod in condemned {
            self.own_claims(pod, steps);
        }
        // The first unavailable pod may be deleted nevertheless: otherwise a broken set could never
        // scale down.
        let needed = slots.iter().map(Slot::pod);
        let beyond = condemned.iter().rev().map(|pod| &**pod);
        let first_down = needed
            .chain(beyond)
            .find(|pod| self.is_unavailable(pod))
            .and_then(|pod| pod.metadata.name.as_ref());
        for pod in condemned {
            if is_leaving(pod) {
                if monotonic {
                    return false;
                }
                continue;
            }
            let is_first_down = pod.metadata.name.as_ref() == first_down;
            let waits = !is_running_and_ready(pod) || !self.is_available(pod);
            if monotonic && waits && !is_first_down {
                return false;
            }
            steps.push(StatefulSetStep::Delete(Arc::clone(pod)));
            if monotonic {
                return false;
            }
        }
        true
    }

    /// The outdated pods to replace now, highest first.
    fn outdated(&self, slots: &[Slot]) -> Vec<Arc<Pod>> {
        let strategy = self.spec.update_strategy.as_ref();
        let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        let partition = rolling.and_then(|rolling| rolling.partition).unwrap_or(0);
        let partition = usize::try_from(partition).unwrap_or(0);
        let is_outdated =
            |pod: &Pod| identity::revision(pod) != self.update.name && !is_leaving(pod);
        let candidates = slots.iter().skip(partition).rev();
        let Some(at_once) = rolling.and_then(|rolling| rolling.max_unavailable.as_ref()) else {
            // One at a time, and none until the last replaced one is available.
            for slot in candidates {
                match slot {
                    Slot::Pod(pod) if is_outdated(pod) => return vec![Arc::clone(pod)],
                    slot if self.is_unavailable(slot.pod()) => break,
                    _ => {}
                }
            }
            return Vec::new();
        };
        let at_once = portion(at_once, self.replicas(), false).unwrap_or(1).max(1);
        let down = slots
            .iter()
            .filter(|slot| self.is_unavailable(slot.pod()))
            .count();
        let more = usize::try_from(at_once).unwrap_or(1).saturating_sub(down);
        candidates
            .filter_map(|slot| match slot {
                Slot::Pod(pod) if is_outdated(pod) => Some(Arc::clone(pod)),
                _ => None,
            })
            .take(more)
            .collect()
    }

    /// The status from the pods.
    fn status(&self) -> StatefulSetStatus {
        let count = |counts: &dyn Fn(&Pod) -> bool| {
            let many = self.pods.iter().filter(|pod| counts(pod)).count();
            i32::try_from(many).unwrap_or(i32::MAX)
        };
        let of = |revision: &Revision| {
            count(&|pod| !is_leaving(pod) && identity::revision(pod) == revision.name)
        };
        StatefulSetStatus {
            observed_generation: self.set.metadata.generation,
            replicas: count(&|_| true),
            ready_replicas: Some(count(&is_running_and_ready)),
            available_replicas: Some(count(&|pod| {
                is_running_and_ready(pod) && self.is_available(pod)
            })),
            current_replicas: Some(of(self.current)),
            updated_replicas: Some(of(self.update)),
            current_revision: Some(self.current.name.clone()),
            update_revision: Some(self.update.name.clone()),
            collision_count: Some(self.collisions),
            conditions: None,
        }
    }

    /// When all pods are updated and ready, the update revision becomes the current one.
    fn completed(&self, mut status: StatefulSetStatus) -> StatefulSetStatus {
        let all = Some(self.replicas());
        if self.is_rolling()
            && status.updated_replicas == all
            && status.ready_replicas == all
            && Some(status.replicas) == all
        {
            status.current_replicas = status.updated_replicas;
            status.current_revision = status.update_revision.clone();
        }
        // Zeros are omitted, except where the type requires them.
        for count in [
            &mut status.ready_replicas,
            &mut status.current_replicas,
            &mut status.updated_replicas,
        ] {
            *count = count.filter(|count| *count != 0);
        }
        status
    }
}

/// Whether a status changed. Missing numbers are zero.
pub(super) fn differs(old: Option<&StatefulSetStatus>, new: &StatefulSetStatus) -> bool {
    let Some(old) = old else { return true };
    let counts = |status: &StatefulSetStatus| {
        let zero = |count: Option<i32>| count.unwrap_or(0);
        (
            status.replicas,
            zero(status.current_replicas),
            zero(status.ready_replicas),
            zero(status.updated_replicas),
            zero(status.available_replicas),
        )
    };
    new.observed_generation > old.observed_generation
        || counts(new) != counts(old)
        || new.current_revision != old.current_revision
        || new.update_revision != old.update_revision
}

fn is_leaving(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

fn is_running_and_ready(pod: &Pod) -> bool {
    phase(pod) == "Running" && is_ready(pod)
}
