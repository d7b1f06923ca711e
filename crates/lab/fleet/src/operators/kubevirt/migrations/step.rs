//! The next action of virt-controller for a migration.

use kube::api::DynamicObject;
use serde_json::Value;

use super::FINALIZER;
use crate::operators::kubevirt::launcher::{Launcher, current};
use crate::operators::kubevirt::object::{is_final, is_leaving, phase, text};

/// Inputs of the decision about a migration.
pub(super) struct MigrationInputs<'a> {
    pub(super) migration: &'a DynamicObject,
    pub(super) instance: Option<&'a DynamicObject>,
    /// The launcher pods of the instance.
    pub(super) launchers: &'a [Launcher],
    /// Whether another migration of the instance is under way.
    pub(super) overtaken: bool,
    /// Whether the limits allow one more migration.
    pub(super) has_capacity: bool,
}

/// The next action.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MigrationStep<'a> {
    /// Wait for a change.
    Nothing,
    /// Set the phase of the migration.
    Enter(&'static str),
    /// Create a target pod, from the pod the instance runs in.
    Launch(&'a Launcher),
    /// Wait until the target is ready.
    Await(&'a Launcher),
    /// Record the target on the instance.
    HandOver(&'a Launcher),
    /// Note on the target that the guest runs there.
    Mark(&'a Launcher),
    /// Fail the migration.
    Fail(&'static str),
    /// Delete a migration of an instance that does not exist.
    Delete,
    /// Delete the target, which is no longer needed.
    Clean(&'a Launcher),
    /// Remove the finalizer.
    Release,
}

/// The next action for a migration.
pub(super) fn step<'a>(inputs: &MigrationInputs<'a>) -> MigrationStep<'a> {
    let migration = inputs.migration;
    let uid = migration.metadata.uid.as_deref();
    let mut launchers = inputs.launchers.iter();
    let target = launchers.find(|one| one.migration.as_deref() == uid);
    let Some(instance) = inputs.instance else {
        // KubeVirt leaves a migration with its finalizer if it is being deleted already.
        return if is_leaving(migration) {
            finish(migration, None)
        } else {
            MigrationStep::Delete
        };
    };
    if is_final(migration) {
        return finish(migration, target);
    }
    let empty = Value::Null;
    let state = instance.data.pointer("/status/migrationState");
    let state = state.unwrap_or(&empty);
    let mine = state["migrationUid"].as_str() == uid;
    // A guest that has moved stays moved: cancelling or shutting down afterwards must not report
    // the migration as failed.
    let arrived = mine && state["completed"] == true && state["failed"] != true;
    if is_final(instance) && !arrived {
        return MigrationStep::Fail("Migration failed vmi shutdown during migration.");
    }
    if is_leaving(migration) && !arrived {
        return MigrationStep::Fail("Migration failed due to being canceled");
    }
    match phase(migration) {
        "" if inputs.overtaken => MigrationStep::Fail(
            "VMI is not eligible for migration because another migration job is in progress.",
        ),
        "" => MigrationStep::Enter("Pending"),
        "Pending" => match target {
            Some(_) => MigrationStep::Enter("Scheduling"),
            None => launch(inputs, instance),
        },
        phase => match target {
            None => {
                MigrationStep::Fail("Migration target pod was removed during active migration.")
            }
            Some(target) if target.is_down() || target.leaving => {
                MigrationStep::Fail("Migration failed because target pod shutdown during migration")
            }
            Some(target) => advance(phase, target, mine, state),
        },
    }
}

/// An accepted migration gets a target when its instance runs in exactly one pod and the limits
/// allow it.
fn launch<'a>(inputs: &MigrationInputs<'a>, instance: &DynamicObject) -> MigrationStep<'a> {
    let node = text(instance, "/status/nodeName");
    let alive = inputs.launchers.iter().filter(|one| !one.is_down());
    let source = current(instance, inputs.launchers).filter(|one| one.node == node);
    match source {
        Some(source)
            if phase(instance) == "Running"
                && !is_leaving(instance)
                // Set by virt-handler when the guest runs; the target gets the same.
                && !text(instance, "/status/selinuxContext").is_empty()
                // A second pod is left by an earlier migration; a target launched beside it would
                // make three.
                && alive.count() == 1
                && inputs.has_capacity =>
        {
            MigrationStep::Launch(source)
        }
        _ => MigrationStep::Nothing,
    }
}

/// The next action for a migration with a target.
fn advance<'a>(phase: &str, target: &'a Launcher, mine: bool, state: &Value) -> MigrationStep<'a> {
    if phase == "Scheduling" {
        return if target.ready && !target.node.is_empty() {
            MigrationStep::Enter("Scheduled")
        } else {
            MigrationStep::Await(target)
        };
    }
    if !mine {
        return match phase {
            "Scheduled" => MigrationStep::HandOver(target),
            _ => MigrationStep::Fail(
                "VMI's migration state was taken over by another migration job during active migration.",
            ),
        };
    }
    if state["failed"] == true {
        return MigrationStep::Fail("source node reported migration failed");
    }
    match phase {
        "Scheduled" => MigrationStep::Enter("PreparingTarget"),
        "PreparingTarget" if state["targetNodeAddress"].is_string() => {
            MigrationStep::Enter("TargetReady")
        }
        "TargetReady" if state["startTimestamp"].is_string() => MigrationStep::Enter("Running"),
        "Running" if !target.marked && state["targetNodeDomainReadyTimestamp"].is_string() => {
            MigrationStep::Mark(target)
        }
        "Running" if state["completed"] == true => MigrationStep::Enter("Succeeded"),
        _ => MigrationStep::Nothing,
    }
}

/// A failed migration has no target; that of one that succeeded is the pod of the instance now.
fn finish<'a>(migration: &DynamicObject, target: Option<&'a Launcher>) -> MigrationStep<'a> {
    let failed = phase(migration) == "Failed";
    let stale = target.filter(|target| failed && !target.leaving);
    let mut finalizers = migration.metadata.finalizers.iter().flatten();
    if let Some(stale) = stale {
        MigrationStep::Clean(stale)
    } else if finalizers.any(|one| one == FINALIZER) {
        MigrationStep::Release
    } else {
        MigrationStep::Nothing
    }
}

#[cfg(test)]
mod tests;
