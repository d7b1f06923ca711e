//! The plan for a Deployment, given its ReplicaSets.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use runtime::Error;

use super::notes;
use super::sets::{age, essence, fresh, replicas, size};
use super::sizes::{Share, Size, grow_new, shrink_old, spread};
use super::status::{self, PROGRESSING};
use super::wanted::{Strategy, Wanted};

/// The changes of one reconcile.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    /// The missing set of the current template.
    pub(super) create: Option<ReplicaSet>,
    /// Sets to update.
    pub(super) update: Vec<Update>,
    /// Sets beyond the revision history limit.
    pub(super) delete: Vec<ReplicaSet>,
    /// The deployment with the desired annotations and status.
    pub(super) deployment: Deployment,
    /// When to reconcile again even without a change.
    pub(super) next_look: Option<Duration>,
}

/// A set to update.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Update {
    /// The desired set.
    pub(super) set: ReplicaSet,
    /// Its previous number of replicas.
    pub(super) from: i32,
}

/// Computes the plan. `busy` are the UIDs of sets with pods that have not terminated.
pub(super) fn decide(
    deployment: &Deployment,
    sets: &[Arc<ReplicaSet>],
    busy: &HashSet<String>,
    now: Timestamp,
) -> Result<Plan, Error> {
    let wanted = Wanted::of(deployment)?;
    let mut draft = Draft::new(deployment, wanted, sets, now);
    let deleting = deployment.metadata.deletion_timestamp.is_some();
    if !deleting {
        draft.note_pause();
    }
    // Even while it is deleted or paused: `kubectl rollout history` reads the annotation.
    draft.sync_revision();
    if deleting {
        draft.count();
    } else if wanted.paused {
        draft.scale();
        draft.clean_up();
        draft.count();
    // Before the rollout goes on: scaling spreads the change over all sets in proportion, and a
    // step of the rollout in the same reconcile would be based on the old size.
    } else if draft.is_resized() {
        draft.scale();
        draft.count();
    } else {
        match wanted.strategy {
            Strategy::Rolling { .. } => draft.roll(),
            Strategy::Recreate => draft.recreate(busy),
        }
        draft.follow();
    }
    Ok(draft.finish(sets))
}

/// A plan under construction: the desired objects.
struct Draft {
    deployment: Deployment,
    wanted: Wanted,
    new: Option<ReplicaSet>,
    /// Oldest first.
    old: Vec<ReplicaSet>,
    delete: Vec<ReplicaSet>,
    next_look: Option<Duration>,
    now: Timestamp,
}

impl Draft {
    /// The set of the current template is the oldest one with that template; all others are old.
    fn new(
        deployment: &Deployment,
        wanted: Wanted,
        sets: &[Arc<ReplicaSet>],
        now: Timestamp,
    ) -> Self {
        let mut old: Vec<ReplicaSet> = sets.iter().map(|set| ReplicaSet::clone(set)).collect();
        old.sort_by_cached_key(age);
        let template = deployment.spec.as_ref().map(|spec| &spec.template);
        let present = essence(template);
        let new = old.iter().position(|set| {
            let spec = set.spec.as_ref();
            essence(spec.and_then(|spec| spec.template.as_ref())) == present
        });
        Self {
            deployment: deployment.clone(),
            wanted,
            new: new.map(|index| old.remove(index)),
            old,
            delete: Vec::new(),
            next_look: None,
            now,
        }
    }

    /// Stops the progress deadline of a paused rollout.
    fn note_pause(&mut self) {
        if self.wanted.deadline.is_none() {
            return;
        }
        let status = self.deployment.status.get_or_insert_default();
        let known = status::find(status, PROGRESSING).and_then(|known| known.reason.as_deref());
        let (reason, message) = match (known, self.wanted.paused) {
            (Some(status::PAUSED), false) => (status::RESUMED, "Deployment is resumed"),
            (Some(status::PAUSED | status::TIMED_OUT), _) | (_, false) => return,
            (_, true) => (status::PAUSED, "Deployment is paused"),
        };
        let condition =
            status::condition(PROGRESSING, "Unknown", reason, message.to_owned(), self.now);
        status::put(status, condition);
    }

    /// Gives the set of the current template and the deployment the highest revision.
    fn sync_revision(&mut self) {
        let revision = notes::last_revision(&self.old) + 1;
        let Some(new) = &mut self.new else {
            return;
        };
        notes::note_revision(new, &self.deployment, revision);
        let spec = new.spec.get_or_insert_default();
        if spec.min_ready_seconds.unwrap_or_default() != self.wanted.min_ready_seconds {
            spec.min_ready_seconds = Some(self.wanted.min_ready_seconds);
        }
        let annotations = new.metadata.annotations.as_ref();
        let noted = annotations.and_then(|annotations| annotations.get(notes::REVISION));
        let noted = noted.cloned().unwrap_or_default();
        let name = new.metadata.name.clone().unwrap_or_default();
        self.set_revision(noted);
        let status = self.deployment.status.get_or_insert_default();
        if self.wanted.deadline.is_some() && status::find(status, PROGRESSING).is_none() {
            let message = format!("Found new replica set {name:?}");
            let found = status::condition(PROGRESSING, "True", status::FOUND, message, self.now);
            status::put(status, found);
        }
    }

    fn set_revision(&mut self, revision: String) {
        let annotations = self.deployment.metadata.annotations.get_or_insert_default();
        annotations.insert(notes::REVISION.to_owned(), revision);
    }

    /// Whether the deployment was scaled since its sets were.
    fn is_resized(&self) -> bool {
        self.old
            .iter()
            .chain(&self.new)
            .filter(|set| replicas(set) > 0)
            .any(|set| notes::desired(set).is_some_and(|desired| desired != self.wanted.replicas))
    }

    /// Distributes a new number of replicas without advancing the rollout.
    fn scale(&mut self) {
        let wanted = self.wanted;
        let with_pods = self.sets().filter(|set| replicas(set) > 0).count();
        if with_pods == 0 {
            if let Some(set) = self.new.as_mut().or_else(|| self.old.last_mut()) {
                resize(set, wanted.replicas, &wanted);
            }
            return;
        }
        let saturated = self.new.as_ref().is_some_and(|new| {
            notes::desired(new) == Some(wanted.replicas)
                && size(new).replicas == wanted.replicas
                && size(new).available == wanted.replicas
        });
        if with_pods > 1 && saturated {
            for set in self.old.iter_mut().filter(|set| replicas(set) > 0) {
                resize(set, 0, &wanted);
            }
            return;
        }
        let reported = self.deployment.status.as_ref().and_then(|it| it.replicas);
        let sets = self.old.iter_mut().chain(&mut self.new);
        let mut sets: Vec<&mut ReplicaSet> = sets.filter(|set| replicas(set) > 0).collect();
        sets.sort_by_cached_key(|set| age(set));
        if let [only] = sets.as_mut_slice() {
            resize(only, wanted.replicas, &wanted);
        } else if matches!(wanted.strategy, Strategy::Rolling { .. }) {
            let share = |set: &&mut ReplicaSet| Share {
                replicas: replicas(set),
                most_before: notes::most(set),
            };
            let shares: Vec<Share> = sets.iter().map(share).collect();
            let sizes = spread(&wanted, &shares, reported.unwrap_or_default());
            for (set, size) in sets.into_iter().zip(sizes) {
                resize(set, size, &wanted);
            }
        }
    }

    /// Rolling update: scales the new set up first; old sets are scaled down only after that is
    /// complete.
    fn roll(&mut self) {
        let wanted = self.wanted;
        self.create_new();
        let total: i32 = self.sets().map(replicas).sum();
        let Some(new) = &mut self.new else { return };
        let grown = grow_new(&wanted, total, replicas(new));
        if grown != replicas(new) {
            resize(new, grown, &wanted);
            return;
        }
        let old: Vec<Size> = self.old.iter().map(size).collect();
        let shrunk = shrink_old(&wanted, size(new), &old);
        if !self.resize_old(&shrunk) {
            self.clean_up_when_complete();
        }
    }

    /// Recreate: scales old sets to zero; the new one is scaled up when their last pod has
    /// terminated.
    fn recreate(&mut self, busy: &HashSet<String>) {
        if self.resize_old(&vec![0; self.old.len()]) {
            return;
        }
        let new = self.new.as_ref().and_then(|new| new.metadata.uid.as_ref());
        let reported: i32 = self
            .old
            .iter()
            .filter_map(|set| set.status.as_ref())
            .map(|status| status.replicas)
            .sum();
        // `Recreate` promises that old and new never run at the same time, so terminating pods
        // count too; `status.replicas` alone does not include them.
        if reported > 0 || busy.iter().any(|uid| Some(uid) != new) {
            return;
        }
        self.create_new();
        let wanted = self.wanted;
        if let Some(new) = &mut self.new
            && replicas(new) != wanted.replicas
        {
            resize(new, wanted.replicas, &wanted);
        }
        self.clean_up_when_complete();
    }

    /// Creates the set of the current template if it is missing.
    fn create_new(&mut self) {
        if self.new.is_some() {
            return;
        }
        let wanted = self.wanted;
        let mut new = fresh(&self.deployment, &wanted);
        let total = self.old.iter().map(replicas).sum();
        resize(&mut new, grow_new(&wanted, total, 0), &wanted);
        let revision = notes::last_revision(&self.old) + 1;
        notes::note_revision(&mut new, &self.deployment, revision);
        self.set_revision(revision.to_string());
        if wanted.deadline.is_some() {
            let name = new.metadata.name.as_deref().unwrap_or_default();
            let message = format!("Created new replica set {name:?}");
            let created =
                status::condition(PROGRESSING, "True", status::CREATED, message, self.now);
            status::put(self.deployment.status.get_or_insert_default(), created);
        }
        self.new = Some(new);
    }

    /// Scales the old sets; returns whether that changes any.
    fn resize_old(&mut self, sizes: &[i32]) -> bool {
        let mut changed = false;
        for (set, size) in self.old.iter_mut().zip(sizes) {
            if replicas(set) != *size {
                resize(set, *size, &self.wanted);
                changed = true;
            }
        }
        changed
    }

    fn clean_up_when_complete(&mut self) {
        let status = self.deployment.status.clone().unwrap_or_default();
        if status::is_complete(&self.deployment, &self.wanted, &status) {
            self.clean_up();
        }
    }

    /// Deletes the oldest empty sets beyond the history limit.
    fn clean_up(&mut self) {
        let Some(limit) = self.wanted.history else {
            return;
        };
        let staying = |set: &&ReplicaSet| set.metadata.deletion_timestamp.is_none();
        let mut sets: Vec<&ReplicaSet> = self.old.iter().filter(staying).collect();
        let surplus = sets
            .len()
            .saturating_sub(usize::try_from(limit).unwrap_or_default());
        // Sets without a valid revision count as the oldest.
        sets.sort_by_cached_key(|set| (notes::revision(set), age(set)));
        let empty = |set: &&ReplicaSet| {
            let status = set.status.clone().unwrap_or_default();
            status.replicas == 0
                && replicas(set) == 0
                && status.observed_generation >= set.metadata.generation
        };
        // A set that still has pods is kept, and not replaced by a younger one: as upstream, fewer
        // are deleted then.
        let surplus = sets.into_iter().take(surplus).filter(empty);
        self.delete = surplus.cloned().collect();
    }

    fn count(&mut self) {
        let status = status::count(
            &self.deployment,
            &self.wanted,
            self.new.as_ref(),
            &self.old,
            self.now,
        );
        self.deployment.status = Some(status);
    }

    fn follow(&mut self) {
        let status = status::follow(
            &self.deployment,
            &self.wanted,
            self.new.as_ref(),
            &self.old,
            self.now,
        );
        self.next_look = status::next_look(&self.deployment, &self.wanted, &status, self.now);
        self.deployment.status = Some(status);
    }

    fn sets(&self) -> impl Iterator<Item = &ReplicaSet> {
        self.old.iter().chain(&self.new)
    }

    /// Compares the desired sets with the existing ones.
    fn finish(self, sets: &[Arc<ReplicaSet>]) -> Plan {
        let (mut create, mut update) = (None, Vec::new());
        for set in self.old.into_iter().chain(self.new) {
            match sets
                .iter()
                .find(|known| known.metadata.uid == set.metadata.uid)
            {
                None => create = Some(set),
                Some(known) if **known != set => update.push(Update {
                    from: replicas(known),
                    set,
                }),
                Some(_) => {}
            }
        }
        // Scale-ups first: their pods are waited for.
        update.sort_by_key(|update| Reverse(replicas(&update.set) - update.from));
        Plan {
            create,
            update,
            delete: self.delete,
            deployment: self.deployment,
            next_look: self.next_look,
        }
    }
}

/// Scales a set and records the deployment's size at that time.
fn resize(set: &mut ReplicaSet, to: i32, wanted: &Wanted) {
    set.spec.get_or_insert_default().replicas = Some(to);
    notes::note_sizes(set, wanted);
}
