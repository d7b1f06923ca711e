//! The status of the policy.

use api::condition::Said;
use api::cpu::{CpuModelPolicy, CpuModelPolicyStatus, Machines, NodeGroup};
use jiff::Timestamp;

use super::Tally;
use crate::groups::{Group, groups, unknown_models};
use crate::index::Index;
use crate::policy::{Complaint, Policy};
use crate::words::CONDITIONS;

/// How many machines and models are named at most.
const NAMED: usize = 8;
/// The most models that the definition of the kind takes.
const MODELS: usize = 256;

/// What the status follows from.
pub struct Facts<'a> {
    /// The policy.
    pub object: &'a CpuModelPolicy,
    /// What in it makes no sense.
    pub complaints: &'a [Complaint],
    /// What it means.
    pub policy: &'a Policy,
    /// The nodes.
    pub index: &'a Index,
    /// Whether there are virtual machines in this cluster at all.
    pub kubevirt_installed: bool,
    /// Whether the API server asks before KubeVirt's objects are written.
    pub admission_registered: bool,
    /// How the machines fare.
    pub tally: Tally,
    /// Those that no other node could take: some of them, by namespace and name.
    pub no_target: &'a [String],
    /// When.
    pub now: Timestamp,
}

/// The status of the policy. Times move when something does.
pub fn status(facts: &Facts<'_>) -> CpuModelPolicyStatus {
    let before = facts.object.status.as_ref();
    let conditions = [ready(facts), admission(facts), targets(facts)];
    debug_assert!(
        conditions.iter().all(|said| said.is_among(CONDITIONS)),
        "{conditions:?}: not explained in words.rs"
    );
    let known = before
        .map(|it| it.conditions.as_slice())
        .unwrap_or_default();
    let generation = facts.object.metadata.generation;
    let conditions = conditions.map(|said| said.condition(known, facts.now, generation));
    let mut unknown = unknown_models(facts.index, facts.policy);
    unknown.truncate(MODELS);
    let count = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let tally = &facts.tally;
    CpuModelPolicyStatus {
        observed_generation: generation,
        conditions: conditions.into(),
        groups: groups(facts.index, facts.policy)
            .into_iter()
            .map(outline)
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

/// What the status says of nodes that are alike.
fn outline(group: Group) -> NodeGroup {
    let newest = group.models.into_iter().next();
    NodeGroup {
        architecture: group.architecture,
        vendor: group.vendor.map(|vendor| vendor.as_str().to_owned()),
        host_model: group.host_model,
        nodes: i32::try_from(group.nodes.len()).unwrap_or(i32::MAX),
        newest_model: newest.map(|newest| newest.model),
    }
}

fn ready(facts: &Facts<'_>) -> Said {
    if !facts.kubevirt_installed {
        let message = "the kinds of kubevirt.io are not installed: there are no machines to choose models for; they are picked up when they come";
        return Said::new("Ready", false, "KubeVirtNotInstalled", message);
    }
    if !facts.complaints.is_empty() {
        let all: Vec<String> = facts.complaints.iter().map(ToString::to_string).collect();
        return Said::new("Ready", false, "InvalidPolicy", all.join("; "));
    }
    Said::new(
        "Ready",
        true,
        "Choosing",
        "models are chosen as the policy says",
    )
}

fn admission(facts: &Facts<'_>) -> Said {
    let kind = "AdmissionReady";
    if facts.admission_registered {
        return Said::new(
            kind,
            true,
            "Registered",
            "the API server asks before machines are started",
        );
    }
    let message = format!(
        "there is no MutatingWebhookConfiguration {}: machines that ask for best-match-model do not start; `medley webhook --register` makes it",
        api::cpu::WEBHOOK
    );
    Said::new(kind, false, "NotRegistered", message)
}

fn targets(facts: &Facts<'_>) -> Said {
    let kind = "TargetsRemain";
    let count = facts.tally.no_target;
    if count == 0 {
        return Said::new(
            kind,
            true,
            "EveryMachineCanMove",
            "every machine has a node that it could migrate to",
        );
    }
    let mut names: Vec<&str> = facts.no_target.iter().map(String::as_str).collect();
    names.sort_unstable();
    names.truncate(NAMED);
    let more = count.saturating_sub(names.len());
    let more = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let message = format!(
        "no node could take {count} of the machines: {}{more}",
        names.join(", ")
    );
    Said::new(kind, false, "NoMigrationTarget", message)
}
