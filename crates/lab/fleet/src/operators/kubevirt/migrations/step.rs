//! What is next about a migration.

use kube::api::DynamicObject;
use serde_json::Value;

use super::FINALIZER;
use crate::operators::kubevirt::launcher::Launcher;
use crate::operators::kubevirt::object::{is_final, is_leaving, phase, text};

/// What is known about a migration.
pub(super) struct Facts<'a> {
    pub(super) migration: &'a DynamicObject,
    pub(super) instance: Option<&'a DynamicObject>,
    /// The pods of the instance.
    pub(super) launchers: &'a [Launcher],
    /// Whether another migration of the instance is under way.
    pub(super) overtaken: bool,
    /// Whether one more migration may begin.
    pub(super) room: bool,
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step<'a> {
    /// Nothing until something changes.
    Nothing,
    /// The migration enters a phase.
    Enter(&'static str),
    /// Launch a target, given the pod the instance is in.
    Launch(&'a Launcher),
    /// The target is not ready.
    Await(&'a Launcher),
    /// Tell the instance about its target.
    HandOver(&'a Launcher),
    /// Have the target get ready.
    Prepare(&'a Launcher),
    /// Begin to move.
    Begin,
    /// Move.
    Move(&'a Launcher),
    /// Give up.
    Fail(&'static str),
    /// Have pods go that are of no use any more.
    Clean(Vec<&'a Launcher>),
    /// There is nothing left to do.
    Release,
}

/// What is to be done about a migration.
pub(super) fn step<'a>(facts: &Facts<'a>) -> Step<'a> {
    let migration = facts.migration;
    let uid = migration.metadata.uid.as_deref();
    let mut launchers = facts.launchers.iter();
    let target = launchers.find(|one| one.migration.as_deref() == uid);
    if is_final(migration) {
        return finish(facts, target);
    }
    let Some(instance) = facts.instance else {
        return Step::Fail("Migration failed because vmi does not exist.");
    };
    let empty = Value::Null;
    let state = instance.data.pointer("/status/migrationState");
    let state = state.unwrap_or(&empty);
    let mine = state["migrationUid"].as_str() == uid;
    let arrived = mine && state["completed"] == true && state["failed"] != true;
    if is_final(instance) && !arrived {
        return Step::Fail("Migration failed vmi shutdown during migration.");
    }
    if is_leaving(migration) && !arrived {
        return Step::Fail("Migration failed due to being canceled");
    }
    match phase(migration) {
        "" if facts.overtaken => Step::Fail(
            "VMI is not eligible for migration because another migration job is in progress.",
        ),
        "" => Step::Enter("Pending"),
        "Pending" => match target {
            Some(_) => Step::Enter("Scheduling"),
            None => launch(facts, instance),
        },
        phase => match target {
            None => Step::Fail("Migration target pod was removed during active migration."),
            Some(target) if target.is_down() || target.leaving => {
                Step::Fail("Migration failed because target pod shutdown during migration")
            }
            Some(target) => advance(phase, target, mine, state),
        },
    }
}

/// A migration that has been accepted gets a target when its instance runs in one pod, and when there is
/// room.
fn launch<'a>(facts: &Facts<'a>, instance: &DynamicObject) -> Step<'a> {
    let node = text(instance, "/status/nodeName");
    let alive = facts.launchers.iter().filter(|one| !one.is_down());
    let source = facts.launchers.iter().find(|one| one.node == node);
    match source {
        Some(source)
            if phase(instance) == "Running"
                && !is_leaving(instance)
                && alive.count() == 1
                && facts.room =>
        {
            Step::Launch(source)
        }
        _ => Step::Nothing,
    }
}

/// A migration has a target.
fn advance<'a>(phase: &str, target: &'a Launcher, mine: bool, state: &Value) -> Step<'a> {
    if phase == "Scheduling" {
        return if target.ready && !target.node.is_empty() {
            Step::Enter("Scheduled")
        } else {
            Step::Await(target)
        };
    }
    if !mine {
        return match phase {
            "Scheduled" => Step::HandOver(target),
            _ => Step::Fail(
                "VMI's migration state was taken over by another migration job during active migration.",
            ),
        };
    }
    if state["failed"] == true {
        return Step::Fail("source node reported migration failed");
    }
    match phase {
        "Scheduled" => Step::Enter("PreparingTarget"),
        "PreparingTarget" if state["targetNodeAddress"].is_string() => Step::Enter("TargetReady"),
        "PreparingTarget" => Step::Prepare(target),
        "TargetReady" if state["startTimestamp"].is_string() => Step::Enter("Running"),
        "TargetReady" => Step::Begin,
        "Running" if state["completed"] == true => Step::Enter("Succeeded"),
        "Running" => Step::Move(target),
        _ => Step::Nothing,
    }
}

/// A migration that is over leaves one pod: where the instance went, or where it stayed.
fn finish<'a>(facts: &Facts<'a>, target: Option<&'a Launcher>) -> Step<'a> {
    let source = text(facts.migration, "/status/migrationState/sourcePod");
    let stale: Vec<&Launcher> = match phase(facts.migration) {
        "Failed" => target.into_iter().collect(),
        _ => facts
            .launchers
            .iter()
            .filter(|one| one.name == source)
            .collect(),
    };
    let stale: Vec<&Launcher> = stale.into_iter().filter(|one| !one.leaving).collect();
    let mut finalizers = facts.migration.metadata.finalizers.iter().flatten();
    if !stale.is_empty() {
        Step::Clean(stale)
    } else if finalizers.any(|one| one == FINALIZER) {
        Step::Release
    } else {
        Step::Nothing
    }
}

#[cfg(test)]
mod tests;
