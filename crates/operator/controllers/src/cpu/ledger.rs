//! The machines that leave the choice to Medley, and how they fared when they were last looked at.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use cpu_models::Demand;
use cpu_models::machine::Running;
use cpu_models::report::Tally;
use cpu_models::review::{Review, Stranded};
use parking_lot::Mutex;
use runtime::Key;

/// All of them.
#[derive(Default)]
pub(super) struct Ledger {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    machines: HashMap<Key, Machine>,
    /// What machines demand. Many demand the same, and share it.
    demands: HashSet<Arc<Demand>>,
}

enum Machine {
    /// It has no model yet.
    Waits,
    /// It has one.
    Runs {
        running: Arc<Running>,
        review: Review,
    },
}

/// What was known of a machine.
pub(super) enum Before {
    /// Nobody had looked at it: Medley has just started.
    Unknown,
    /// It had no model.
    Waited,
    /// It fared like this.
    Fared(Review),
}

impl Ledger {
    /// A machine has no model yet.
    pub(super) fn waits(&self, key: &Key) {
        let mut state = self.state.lock();
        state.machines.insert(key.clone(), Machine::Waits);
    }

    /// A machine has a model. How it fared before.
    pub(super) fn runs(&self, key: &Key, mut running: Arc<Running>, review: Review) -> Before {
        let mut state = self.state.lock();
        if let Some(same) = state.demands.get(&running.machine.demand) {
            let same = Arc::clone(same);
            Arc::make_mut(&mut running).machine.demand = same;
        } else {
            let demand = Arc::clone(&running.machine.demand);
            state.demands.insert(demand);
        }
        let machine = Machine::Runs { running, review };
        match state.machines.insert(key.clone(), machine) {
            None => Before::Unknown,
            Some(Machine::Waits) => Before::Waited,
            Some(Machine::Runs { review, .. }) => Before::Fared(review),
        }
    }

    /// A machine is gone.
    pub(super) fn forget(&self, key: &Key) {
        self.state.lock().machines.remove(key);
    }

    /// All machines that have a model.
    pub(super) fn running(&self) -> Vec<(Key, Arc<Running>)> {
        let mut state = self.state.lock();
        // What nobody demands any more is held here alone.
        state.demands.retain(|demand| Arc::strong_count(demand) > 1);
        let machines = state.machines.iter();
        machines
            .filter_map(|(key, machine)| match machine {
                Machine::Waits => None,
                Machine::Runs { running, .. } => Some((key.clone(), Arc::clone(running))),
            })
            .collect()
    }

    /// All machines that have none.
    pub(super) fn waiting(&self) -> Vec<Key> {
        let state = self.state.lock();
        let machines = state.machines.iter();
        let waiting = machines.filter(|(_, machine)| matches!(machine, Machine::Waits));
        waiting.map(|(key, _)| key.clone()).collect()
    }

    /// How a machine fared before, if it fares differently now and is still the one that was looked at.
    pub(super) fn reviewed(
        &self,
        key: &Key,
        looked_at: &Arc<Running>,
        now: &Review,
    ) -> Option<Review> {
        match self.state.lock().machines.get_mut(key)? {
            Machine::Runs { running, review }
                if Arc::ptr_eq(running, looked_at) && review != now =>
            {
                Some(std::mem::replace(review, now.clone()))
            }
            _ => None,
        }
    }

    /// How many there are of each sort.
    pub(super) fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for machine in self.state.lock().machines.values() {
            match machine {
                Machine::Waits => tally.add(None),
                Machine::Runs { review, .. } => tally.add(Some(review)),
            }
        }
        tally
    }

    /// Those that no node could take.
    pub(super) fn no_target(&self) -> Vec<String> {
        let state = self.state.lock();
        let machines = state.machines.iter();
        let stuck = machines.filter(|(_, machine)| {
            matches!(machine, Machine::Runs { review, .. } if review.stranded == Some(Stranded::NoTarget))
        });
        stuck.map(|(key, _)| key.to_string()).collect()
    }
}
