//! virt-handler's part of a migration: the target prepares, the source sends the guest, the target runs it.

use std::time::Duration;

use kube::api::DynamicObject;
use runtime::{Error, Key, Next, Reconcile};
use serde_json::{Value, json};

use super::{cpu_of, interfaces};
use crate::model::Cpu;
use crate::operators::kubevirt::context::Context;
use crate::operators::kubevirt::labels::{CPU_MODEL_MIGRATION, MIGRATION_TARGET, NODE_NAME};
use crate::operators::kubevirt::launcher::Launcher;
use crate::operators::kubevirt::object::{is_leaving, phase, status, text};
use crate::operators::report::now;

/// Time a target takes to prepare.
const PREPARE_TIME: Duration = Duration::from_secs(1);
/// Time a guest takes to migrate.
const MIGRATION_TIME: Duration = Duration::from_secs(8);

/// Moves guests.
pub(in crate::operators::kubevirt) struct Moves(pub(in crate::operators::kubevirt) Context);

/// The next action of a node for a migration.
#[derive(Debug, PartialEq, Eq)]
enum Move<'a> {
    /// Wait for a change.
    Nothing,
    /// The target prepares.
    Prepare(&'a Launcher),
    /// The source begins to send the guest.
    Send,
    /// The guest runs on the target, or does not start there.
    Receive(&'a Launcher),
    /// The guest has left this pod.
    Leave(&'a Launcher),
}

/// The next action for an instance that virt-controller has handed over to a target.
fn next<'a>(instance: &DynamicObject, launchers: &'a [Launcher]) -> Move<'a> {
    let empty = Value::Null;
    let state = instance.data.pointer("/status/migrationState");
    let state = state.unwrap_or(&empty);
    if phase(instance) != "Running" || is_leaving(instance) || state["failed"] == true {
        return Move::Nothing;
    }
    let named = |field: &str| launchers.iter().find(|one| state[field] == one.name);
    if state["completed"] == true {
        let left = named("sourcePod").filter(|source| !source.leaving);
        return left.map_or(Move::Nothing, Move::Leave);
    }
    match named("targetPod").filter(|target| !target.is_going_down()) {
        None => Move::Nothing,
        Some(target) if !state["targetNodeAddress"].is_string() => Move::Prepare(target),
        Some(_) if !state["startTimestamp"].is_string() => Move::Send,
        Some(target) => Move::Receive(target),
    }
}

impl Reconcile for Moves {
    fn name(&self) -> &'static str {
        "virt-handler-migrations"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let context = &self.0;
        loop {
            let Some(instance) = context.instances.cache.find(key) else {
                return Ok(Next::Wait);
            };
            let launchers = context.launchers(&instance.metadata);
            let uid = text(&instance, "/status/migrationState/migrationUid");
            match next(&instance, &launchers) {
                Move::Nothing => return Ok(Next::Wait),
                Move::Prepare(target) => {
                    if let Some(left) = context.pace.left(&format!("prepare {uid}"), PREPARE_TIME) {
                        return Ok(Next::After(left));
                    }
                    let address = target.address.as_ref().unwrap_or(&target.node);
                    self.note(&instance, |state| {
                        state["targetNodeAddress"] = json!(address);
                    })
                    .await?;
                }
                Move::Send => {
                    self.note(&instance, |state| {
                        state["startTimestamp"] = json!(now());
                        state["mode"] = json!("PreCopy");
                    })
                    .await?;
                }
                Move::Receive(target) => {
                    if let Some(left) = context.pace.left(&format!("move {uid}"), MIGRATION_TIME) {
                        return Ok(Next::After(left));
                    }
                    let node = context.nodes.get("", &target.node);
                    let cpu = node.as_deref().and_then(cpu_of);
                    // Only now, as libvirt does: the scheduler places the target by labels, and
                    // whether the guest's CPU really exists there shows when it starts.
                    match cpu.and_then(|cpu| mismatch(&instance, target, &cpu)) {
                        None => self.moved(&instance, target).await?,
                        Some(why) => self.stays(&instance, &why).await?,
                    }
                }
                Move::Leave(source) => context.delete_pod(&key.namespace, source).await?,
            }
        }
    }
}

impl Moves {
    /// Updates the migration state of an instance.
    async fn note(
        &self,
        instance: &DynamicObject,
        change: impl FnOnce(&mut Value),
    ) -> Result<(), Error> {
        let mut changed = instance.clone();
        change(&mut status(&mut changed)["migrationState"]);
        self.0.handle_instance(&changed).await
    }

    /// The guest runs on its target.
    async fn moved(&self, instance: &DynamicObject, target: &Launcher) -> Result<(), Error> {
        let mut changed = instance.clone();
        let labels = changed.metadata.labels.get_or_insert_default();
        labels.insert(NODE_NAME.to_owned(), target.node.clone());
        labels.remove(MIGRATION_TARGET);
        let status = status(&mut changed);
        status["nodeName"] = json!(target.node);
        status["interfaces"] = interfaces(target);
        if let Some(fields) = status.as_object_mut() {
            fields.remove("evacuationNodeName");
        }
        let state = &mut status["migrationState"];
        state["targetNodeDomainDetected"] = json!(true);
        state["targetNodeDomainReadyTimestamp"] = json!(now());
        state["endTimestamp"] = json!(now());
        state["completed"] = json!(true);
        self.0.handle_instance(&changed).await?;
        let (events, kind) = (&self.0.handler, &self.0.instances.kind);
        let text = format!(
            "The VirtualMachineInstance migrated to node {}.",
            target.node
        );
        events.normal_of_kind(instance, kind, "Migrated", text);
        Ok(())
    }

    /// The guest does not start on its target and keeps running on the source.
    async fn stays(&self, instance: &DynamicObject, why: &str) -> Result<(), Error> {
        let (events, kind) = (&self.0.handler, &self.0.instances.kind);
        let text = format!(
            "VirtualMachineInstance migration uid {} failed. reason:Live migration failed {why}",
            text(instance, "/status/migrationState/migrationUid")
        );
        events.warning_of_kind(instance, kind, "Migrated", text);
        let mut changed = instance.clone();
        let labels = changed.metadata.labels.get_or_insert_default();
        labels.remove(MIGRATION_TARGET);
        let state = &mut status(&mut changed)["migrationState"];
        state["failed"] = json!(true);
        state["completed"] = json!(true);
        state["failureReason"] = json!(format!("Live migration failed {why}"));
        state["endTimestamp"] = json!(now());
        self.0.handle_instance(&changed).await
    }
}

/// libvirt's error for a guest that arrives on a node with this CPU. The labels promise less than
/// libvirt requires: a known model is not necessarily usable.
fn mismatch(instance: &DynamicObject, target: &Launcher, cpu: &Cpu) -> Option<String> {
    let model = match text(instance, "/spec/domain/cpu/model") {
        "host-model" => {
            let mut keys = target.node_selector.keys();
            keys.find_map(|key| key.strip_prefix(CPU_MODEL_MIGRATION))?
        }
        "host-passthrough" => return None,
        model => model,
    };
    if cpu.runs(model) {
        return None;
    }
    let missing = cpu.lacks(model).join(",");
    Some(format!(
        "error encountered during MigrateToURI3 libvirt api call: virError(Code=9, Domain=10, Message='operation failed: guest CPU doesn't match specification: missing features: {missing}')"
    ))
}

#[cfg(test)]
mod tests;
