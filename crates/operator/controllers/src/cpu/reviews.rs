//! The virtual machines that leave the choice to Medley, and the result of their last review.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use cpu_models::Demand;
use cpu_models::machine::RunningVm;
use cpu_models::report::Tally;
use cpu_models::review::{Review, Stranded};
use parking_lot::Mutex;
use runtime::Key;

/// Last known state of every managed virtual machine.
#[derive(Default)]
pub(super) struct VmReviews {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    machines: HashMap<Key, VmState>,
    /// Interned demands: many virtual machines have the same.
    // Thousands of VMs from one instance type have one demand; interning keeps one copy of its labels and features.
    demands: HashSet<Arc<Demand>>,
}

enum VmState {
    /// No model yet.
    Pending {
        /// Whether no node can run it.
        excluded: bool,
    },
    /// Running with a model.
    Reviewed {
        running: Arc<RunningVm>,
        review: Review,
    },
}

/// State of a virtual machine before an update.
pub(super) enum Before {
    /// First review since the start of the process.
    Unknown,
    /// It had no model.
    Pending,
    /// Result of the previous review.
    Reviewed(Review),
}

impl VmReviews {
    /// Records a virtual machine without a model, and whether no node can run it; returns whether that is new.
    pub(super) fn set_pending(&self, key: &Key, excluded: bool) -> bool {
        let mut state = self.state.lock();
        let pending = VmState::Pending { excluded };
        let before = state.machines.insert(key.clone(), pending);
        excluded && !matches!(before, Some(VmState::Pending { excluded: true }))
    }

    /// Records the review of a virtual machine with a model; returns its previous state.
    pub(super) fn set_reviewed(
        &self,
        key: &Key,
        mut running: Arc<RunningVm>,
        review: Review,
    ) -> Before {
        let mut state = self.state.lock();
        if let Some(same) = state.demands.get(&running.machine.demand) {
            let same = Arc::clone(same);
            Arc::make_mut(&mut running).machine.demand = same;
        } else {
            let demand = Arc::clone(&running.machine.demand);
            state.demands.insert(demand);
        }
        let machine = VmState::Reviewed { running, review };
        match state.machines.insert(key.clone(), machine) {
            None => Before::Unknown,
            Some(VmState::Pending { .. }) => Before::Pending,
            Some(VmState::Reviewed { review, .. }) => Before::Reviewed(review),
        }
    }

    /// Removes a deleted virtual machine.
    pub(super) fn forget(&self, key: &Key) {
        self.state.lock().machines.remove(key);
    }

    /// All virtual machines with a model.
    pub(super) fn running(&self) -> Vec<(Key, Arc<RunningVm>)> {
        let mut state = self.state.lock();
        // Drop demands that only this set refers to.
        state.demands.retain(|demand| Arc::strong_count(demand) > 1);
        let machines = state.machines.iter();
        machines
            .filter_map(|(key, machine)| match machine {
                VmState::Pending { .. } => None,
                VmState::Reviewed { running, .. } => Some((key.clone(), Arc::clone(running))),
            })
            .collect()
    }

    /// All virtual machines without a model.
    pub(super) fn pending(&self) -> Vec<Key> {
        let state = self.state.lock();
        let machines = state.machines.iter();
        let waiting = machines.filter(|(_, machine)| matches!(machine, VmState::Pending { .. }));
        waiting.map(|(key, _)| key.clone()).collect()
    }

    /// Replaces the review if it changed and `reviewed` is still the current state; returns the previous one. A state
    /// that was replaced meanwhile has been reviewed by its own reconcile.
    pub(super) fn replace_review(
        &self,
        key: &Key,
        reviewed: &Arc<RunningVm>,
        now: &Review,
    ) -> Option<Review> {
        match self.state.lock().machines.get_mut(key)? {
            VmState::Reviewed { running, review }
                // Pointer equality is the version check: `set_reviewed` stores a new
                // `Arc` for every change of an instance.
                if Arc::ptr_eq(running, reviewed) && review != now =>
            {
                Some(std::mem::replace(review, now.clone()))
            }
            _ => None,
        }
    }

    /// Counts by state.
    pub(super) fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for machine in self.state.lock().machines.values() {
            match machine {
                VmState::Pending { .. } => tally.add(None),
                VmState::Reviewed { review, .. } => tally.add(Some(review)),
            }
        }
        tally
    }

    /// Virtual machines without a migration target.
    pub(super) fn no_target(&self) -> Vec<String> {
        let state = self.state.lock();
        let machines = state.machines.iter();
        let stuck = machines.filter(|(_, machine)| {
            matches!(machine, VmState::Reviewed { review, .. } if review.stranded == Some(Stranded::NoTarget))
        });
        stuck.map(|(key, _)| key.to_string()).collect()
    }
}
