//! Items that wait for work in the cluster to finish.

use super::{Decider, Decision, DecisionInputs, Execution};
use crate::in_flight::{POLL_INTERVAL, Probe, Reading, WAITS, message};

/// What has to be read before an item is executed: nothing, unless it is disruptive.
pub fn probes(facts: &DecisionInputs<'_>, execution: &Execution) -> Vec<Probe> {
    if !execution.is_disruptive() {
        return Vec::new();
    }
    facts.floor().gates(execution.impact())
}

/// The decision to hold an item back because of work in flight; `None` if it may be executed.
pub fn held(
    facts: &DecisionInputs<'_>,
    execution: &Execution,
    readings: &[Reading],
) -> Option<Decision> {
    let waiting = message(readings)?;
    let mut decider = Decider::new(*facts);
    let mut is_new = false;
    decider.touch(execution.index, |item| {
        let before = item.message.as_deref().unwrap_or_default();
        // An event when the wait begins, and none for each object that comes or goes meanwhile.
        is_new = !before.starts_with(WAITS);
        item.message = Some(waiting.clone());
    });
    if is_new {
        let name = &execution.item.name;
        let text = format!("Item '{name}' waits for work in flight. {waiting}");
        decider.notice(false, "WorkInFlight", &text);
    }
    let wake = facts.now.checked_add(POLL_INTERVAL).ok();
    Some(decider.rest(wake))
}
