//! Disruption budgets.

mod decide;
mod memory;
mod scale;
mod stale;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use runtime::{Absent as _, Cache, Error, Events, Key, Manager, Next, Queue, Reconcile, Writer};

use super::pods::{Selector, matches, number_of, selector};
use crate::object::namespace;
use decide::{Counted, Wanted};
use memory::Memory;
use scale::Scales;

const COMPONENT: &str = "controllermanager";
const WORKERS: usize = 2;
/// Batch window of pod changes.
const BATCH_WINDOW: Duration = Duration::from_millis(50);

/// Starts the disruption controllers.
pub(crate) async fn start(manager: &Manager) {
    let budgets = manager.cache::<PodDisruptionBudget>();
    let pods = manager.cache::<Pod>();
    let scales = Scales::new(manager);
    tokio::join!(budgets.synced(), pods.synced(), scales.synced());
    let queue = Queue::<Key>::new();
    let memory = Arc::new(Memory::default());
    let (changed, noted) = (queue.clone(), Arc::clone(&memory));
    budgets.on_change(move |change| {
        noted.note(change);
        if let Some(budget) = &change.new {
            changed.add(Key::of(&budget.metadata));
        }
    });
    let (changed, known, seen) = (queue.clone(), budgets.clone(), Arc::clone(&memory));
    pods.on_change(move |change| {
        let namespace = change.object().map(|pod| namespace(&pod.metadata));
        for budget in known.in_namespace(namespace.unwrap_or_default()) {
            let Ok(selector) = read_selector(&budget) else {
                continue;
            };
            if change.sides().any(|pod| matches(&selector, &pod.metadata)) {
                seen.see(change, Timestamp::now());
                changed.add_after(Key::of(&budget.metadata), BATCH_WINDOW);
            }
        }
    });
    stale::start(manager, &pods);
    let controller = Controller {
        writer: Writer::namespaced(manager.client()).shown_by(&budgets),
        events: manager.events(COMPONENT),
        budgets,
        pods,
        scales,
        memory,
    };
    manager.start(controller, &queue, WORKERS);
}

/// The selector of a budget; a missing one selects nothing.
fn read_selector(budget: &PodDisruptionBudget) -> Result<Selector, Error> {
    let written = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    written.map_or_else(|| Ok(Selector::nothing()), selector)
}

struct Controller {
    writer: Writer<PodDisruptionBudget>,
    events: Events,
    budgets: Cache<PodDisruptionBudget>,
    pods: Cache<Pod>,
    scales: Scales,
    memory: Arc<Memory>,
}

impl Reconcile for Controller {
    fn name(&self) -> &'static str {
        "disruption"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(budget) = self.budgets.find(key) else {
            return Ok(Next::Wait);
        };
        let now = Timestamp::now();
        let counted = match self.count(&budget, now).await {
            Ok(counted) => counted,
            Err(error) if error.is_conflict() => return Err(error),
            // Without the expected number of pods no disruption is allowed.
            Err(error) => Counted {
                status: decide::unknown(&budget, &error.to_string(), now),
                look_again: None,
            },
        };
        if budget.status.as_ref() != Some(&counted.status) {
            // Evictions update the status as well: a conflict makes either side read it again.
            let written = self
                .writer
                .replace_status(&budget.metadata, &counted.status);
            written.await.not_found_as_none()?;
        }
        Ok(counted.look_again.map_or(Next::Wait, Next::After))
    }
}

impl Controller {
    async fn count(&self, budget: &PodDisruptionBudget, now: Timestamp) -> Result<Counted, Error> {
        let pods = self.selected(budget)?;
        if pods.is_empty() {
            self.events
                .normal(budget, "NoPods", "No matching pods found");
        }
        let wanted = self.wanted(budget, &pods).await.inspect_err(|error| {
            let message = format!("Failed to calculate the number of expected pods: {error}");
            self.events
                .warning(budget, "CalculateExpectedPodCountFailed", message);
        })?;
        let key = Key::of(&budget.metadata);
        // Entries about deleted pods do not apply to their successors of the same name.
        let budget = &decide::without(budget, &self.memory.stale_entries(&key));
        for pod in decide::overdue(budget, &pods, now) {
            let message = format!("Pod was expected by PDB {key} to be deleted but it wasn't");
            self.events.warning(&**pod, "NotDeleted", message);
        }
        Ok(decide::count(budget, &pods, wanted, now))
    }

    fn selected(&self, budget: &PodDisruptionBudget) -> Result<Vec<Arc<Pod>>, Error> {
        let selector = read_selector(budget)?;
        let mut pods = self.pods.in_namespace(namespace(&budget.metadata));
        pods.retain(|pod| matches(&selector, &pod.metadata));
        Ok(pods)
    }

    /// Expected number of pods, and desired number of healthy ones.
    async fn wanted(
        &self,
        budget: &PodDisruptionBudget,
        pods: &[Arc<Pod>],
    ) -> Result<Wanted, Error> {
        if !decide::needs_scale(budget) {
            return decide::wanted(budget, number_of(pods));
        }
        let found = self.scales.of(pods).await?;
        if found.has_unmanaged {
            let selector = read_selector(budget)?;
            self.events.warning(
                budget,
                "UnmanagedPods",
                format!(
                    "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value."
                ),
            );
        }
        decide::wanted(budget, found.replicas)
    }
}

#[cfg(test)]
mod tests;
