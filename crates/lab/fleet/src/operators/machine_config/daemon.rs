//! The machine-config daemon on every node: applies the desired configuration.

use std::time::Duration;

use runtime::{Error, Key, Next, Reconcile};
use serde_json::{Value, json};

use super::Context;
use super::machine::{DEGRADED, DONE, Machine, NodeConfigStep, WORKING};
use crate::operators::names::{CORDONED, CURRENT_CONFIG, PSI, REASON, STATE};
use crate::pace::Pace;

/// Duration of a reboot.
const REBOOT_TIME: Duration = Duration::from_mins(1);

pub(super) struct Daemon {
    pub(super) context: Context,
    pub(super) pace: Pace,
}

impl Reconcile for Daemon {
    fn name(&self) -> &'static str {
        "machine-config-daemon"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        loop {
            let Some(node) = self.context.nodes.find(key) else {
                return Ok(Next::Wait);
            };
            let machine = Machine::of(&node);
            let patch = match machine.step() {
                NodeConfigStep::Nothing(_) => match self.kernel(&machine) {
                    Some(patch) => patch,
                    None => return Ok(Next::Wait),
                },
                NodeConfigStep::Begin => begin(&machine),
                NodeConfigStep::Reboot => {
                    let update = format!("{} to {}", machine.name, machine.desired);
                    if let Some(left) = self.pace.left(&update, REBOOT_TIME) {
                        return Ok(Next::After(left));
                    }
                    let psi = self.context.has_psi(machine.desired);
                    // In the same patch as the state: a node must never be Done with the
                    // configuration from before the reboot.
                    let more = json!({
                        CURRENT_CONFIG: machine.desired,
                        PSI: psi.then_some("true"),
                    });
                    settle(&machine, more)
                }
                NodeConfigStep::Settle => settle(&machine, json!({})),
                NodeConfigStep::Degrade(reason) => {
                    annotate(&json!({ STATE: DEGRADED, REASON: reason }))
                }
            };
            self.context.patch_node(machine.name, patch).await?;
        }
    }
}

impl Daemon {
    /// Annotation of the kernel state, which outlives this process.
    fn kernel(&self, machine: &Machine<'_>) -> Option<Value> {
        let psi = self.context.has_psi(machine.current);
        let known = machine.is_managed() && self.context.configs.get("", machine.current).is_some();
        (known && psi != machine.psi).then(|| annotate(&json!({ PSI: psi.then_some("true") })))
    }
}

fn annotate(annotations: &Value) -> Value {
    json!({ "metadata": { "annotations": annotations } })
}

/// Cordons the node. A node that another client cordoned stays cordoned after the update.
fn begin(machine: &Machine<'_>) -> Value {
    if machine.unschedulable {
        return annotate(&json!({ STATE: WORKING, REASON: "" }));
    }
    let mut patch = annotate(&json!({ STATE: WORKING, REASON: "", CORDONED: "true" }));
    patch["spec"] = json!({ "unschedulable": true });
    patch
}

/// Marks the node as done and uncordons it.
fn settle(machine: &Machine<'_>, more: Value) -> Value {
    let mut patch = annotate(&json!({ STATE: DONE, REASON: "", CORDONED: null }));
    if let (Some(all), Value::Object(more)) =
        (patch["metadata"]["annotations"].as_object_mut(), more)
    {
        all.extend(more);
    }
    if machine.cordoned {
        patch["spec"] = json!({ "unschedulable": null });
    }
    patch
}
