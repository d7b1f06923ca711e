//! Status patches limited to the changes: a plan of a thousand items is long, while often only the phase changes.

use api::advisor::{VirtPlatformConfig, VirtPlatformConfigStatus};
use serde::Serialize;
use serde_json::{Value, json};

/// The JSON patch that sets the status of a configuration. A merge patch cannot be used: it drops null values, and an item records which fields were null.
pub fn status_patch(config: &VirtPlatformConfig, new: &VirtPlatformConfigStatus) -> Vec<Value> {
    let mut operations = Vec::new();
    if config.status.is_none() {
        operations.push(operation("add", "/status", &json!({})));
    }
    let nothing = VirtPlatformConfigStatus::default();
    let old = config.status.as_ref().unwrap_or(&nothing);
    // Exhaustive, so that a new field is a compile error here.
    let VirtPlatformConfigStatus {
        phase,
        impact_severity,
        observed_generation,
        source_snapshot_hash,
        operator_version,
        profile_hash,
        applied_options,
        items,
        conditions,
        plan_digest,
        required_approvals,
        inputs,
        warnings,
        revision,
        applied,
        drift,
        capabilities,
        reviewed_digest,
        enforcement,
        next_window,
        rolled_back_to,
        retry,
    } = new;
    let mut patch = Patch(operations);
    patch.field("phase", &old.phase, phase);
    patch.field("impactSeverity", &old.impact_severity, impact_severity);
    patch.field(
        "observedGeneration",
        &old.observed_generation,
        observed_generation,
    );
    patch.field(
        "sourceSnapshotHash",
        &old.source_snapshot_hash,
        source_snapshot_hash,
    );
    patch.field("operatorVersion", &old.operator_version, operator_version);
    patch.field("profileHash", &old.profile_hash, profile_hash);
    patch.field("appliedOptions", &old.applied_options, applied_options);
    patch.list("items", &old.items, items);
    patch.list("conditions", &old.conditions, conditions);
    patch.field("planDigest", &old.plan_digest, plan_digest);
    patch.list(
        "requiredApprovals",
        &old.required_approvals,
        required_approvals,
    );
    patch.field("inputs", &old.inputs, inputs);
    patch.field("warnings", &old.warnings, warnings);
    patch.field("revision", &old.revision, revision);
    patch.list("applied", &old.applied, applied);
    patch.field("drift", &old.drift, drift);
    patch.field("capabilities", &old.capabilities, capabilities);
    patch.field("reviewedDigest", &old.reviewed_digest, reviewed_digest);
    patch.field("enforcement", &old.enforcement, enforcement);
    patch.field("nextWindow", &old.next_window, next_window);
    patch.field("rolledBackTo", &old.rolled_back_to, rolled_back_to);
    patch.field("retry", &old.retry, retry);
    patch.0
}

struct Patch(Vec<Value>);

impl Patch {
    fn field<T: Serialize + PartialEq>(&mut self, name: &str, old: &T, new: &T) {
        if old == new {
            return;
        }
        let path = format!("/status/{name}");
        let is_there = |value: &Value| match value {
            Value::Null => false,
            Value::Array(items) => !items.is_empty(),
            _ => true,
        };
        let (old, new) = (value(old), value(new));
        if is_there(&new) {
            self.0.push(operation("add", &path, &new));
        } else if is_there(&old) {
            self.0.push(json!({ "op": "remove", "path": path }));
        }
    }

    /// A list that may be long: if its length is unchanged, only the changed items are written.
    fn list<T: Serialize + PartialEq>(&mut self, name: &str, old: &Vec<T>, new: &Vec<T>) {
        if old.len() != new.len() {
            return self.field(name, old, new);
        }
        for (index, (old, new)) in old.iter().zip(new).enumerate() {
            if old != new {
                // Positions are those of the version that was read; the caller sends the patch with its
                // resourceVersion.
                let path = format!("/status/{name}/{index}");
                self.0.push(operation("replace", &path, &value(new)));
            }
        }
    }
}

fn operation(op: &str, path: &str, value: &Value) -> Value {
    json!({ "op": op, "path": path, "value": value })
}

fn value(of: &impl Serialize) -> Value {
    // The parts of a status have only string keys, so they always serialize.
    serde_json::to_value(of).unwrap_or_default()
}

#[cfg(test)]
mod tests;
