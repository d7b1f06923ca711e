//! The status of the policy.

use api::condition::ConditionContent;
use api::cpu::{CpuModelPolicy, CpuModelPolicyStatus, Machines, NodeGroup};
use jiff::Timestamp;

use super::Tally;
use crate::groups::{Group, groups, unknown_models};
use crate::index::Index;
use crate::policy::{Complaint, Policy};
use crate::reasons::CONDITIONS;

/// At most this many VMs are named in a condition.
const MAX_NAMED_VMS: usize = 8;
/// `maxItems` of `status.unknownModels` in the CRD; the API server rejects a longer list.
const MAX_UNKNOWN_MODELS: usize = 256;

/// The inputs of the status.
pub struct StatusInputs<'a> {
    /// The policy object.
    pub object: &'a CpuModelPolicy,
    /// Its invalid fields.
    pub complaints: &'a [Complaint],
    /// The policy, parsed.
    pub policy: &'a Policy,
    /// The nodes.
    pub index: &'a Index,
    /// Whether the CRDs of kubevirt.io are installed.
    pub kubevirt_installed: bool,
    /// Whether the MutatingWebhookConfiguration exists.
    pub admission_registered: bool,
    /// The VMs by state.
    pub tally: Tally,
    /// Some of the VMs without a migration target, as namespace/name.
    pub no_target: &'a [String],
    /// The time of the status.
    pub now: Timestamp,
}

/// The status of the policy. `lastTransitionTime` changes only when a condition's status does.
pub fn status(facts: &StatusInputs<'_>) -> CpuModelPolicyStatus {
    let before = facts.object.status.as_ref();
    let conditions = [ready(facts), admission(facts), targets(facts)];
    debug_assert!(
        conditions.iter().all(|update| update.is_among(CONDITIONS)),
        "{conditions:?}: not documented in reasons.rs"
    );
    let known = before
        .map(|it| it.conditions.as_slice())
        .unwrap_or_default();
    let generation = facts.object.metadata.generation;
    let conditions = conditions.map(|update| update.condition(known, facts.now, generation));
    let mut unknown = unknown_models(facts.index, facts.policy);
    unknown.truncate(MAX_UNKNOWN_MODELS);
    let count = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let tally = &facts.tally;
    CpuModelPolicyStatus {
        observed_generation: generation,
        conditions: conditions.into(),
        groups: groups(facts.index, facts.policy)
            .into_iter()
            .map(node_group)
            .collect(),
        machines: Some(Machines {
            resolved: count(tally.resolved),
            host_model: count(tally.host_model),
            stale: count(tally.stale),
            stranded: count(tally.stranded),
        }),
        unknown_models: unknown,
    }
}

/// A node class in the status.
fn node_group(group: Group) -> NodeGroup {
    let newest = group.models.into_iter().next();
    NodeGroup {
        architecture: group.architecture,
        vendor: group.vendor.map(|vendor| vendor.as_str().to_owned()),
        host_model: group.host_model,
        nodes: i32::try_from(group.nodes.len()).unwrap_or(i32::MAX),
        newest_model: newest.map(|newest| newest.model),
    }
}

fn ready(facts: &StatusInputs<'_>) -> ConditionContent {
    if !facts.kubevirt_installed {
        let message =
            "the CRDs of kubevirt.io are not installed; CPU models are chosen once they are";
        return ConditionContent::new("Ready", false, "KubeVirtNotInstalled", message);
    }
    if !facts.complaints.is_empty() {
        let all: Vec<String> = facts.complaints.iter().map(ToString::to_string).collect();
        return ConditionContent::new("Ready", false, "InvalidPolicy", all.join("; "));
    }
    ConditionContent::new(
        "Ready",
        true,
        "Choosing",
        "CPU models are chosen according to the policy",
    )
}

fn admission(facts: &StatusInputs<'_>) -> ConditionContent {
    let kind = "AdmissionReady";
    if facts.admission_registered {
        return ConditionContent::new(
            kind,
            true,
            "Registered",
            "the MutatingWebhookConfiguration is registered",
        );
    }
    let message = format!(
        "MutatingWebhookConfiguration {} not found: VMs that request best-match-model do not start; run `medley webhook --register`",
        api::cpu::WEBHOOK
    );
    ConditionContent::new(kind, false, "NotRegistered", message)
}

fn targets(facts: &StatusInputs<'_>) -> ConditionContent {
    let kind = "TargetsRemain";
    let count = facts.tally.no_target;
    if count == 0 {
        return ConditionContent::new(
            kind,
            true,
            "EveryMachineCanMove",
            "every VM has a migration target",
        );
    }
    let mut names: Vec<&str> = facts.no_target.iter().map(String::as_str).collect();
    names.sort_unstable();
    names.truncate(MAX_NAMED_VMS);
    let more = count.saturating_sub(names.len());
    let more = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let message = format!(
        "{count} VMs have no migration target: {}{more}",
        names.join(", ")
    );
    ConditionContent::new(kind, false, "NoMigrationTarget", message)
}
