//! The status of a GoldenImagePolicy.

use api::golden::{
    GoldenImagePolicy, GoldenImagePolicyStatus, ImageState, NodeArchitectures, Verification,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::Complaint;
use crate::architectures::Architectures;
use crate::conditions::ConditionUpdate;
use crate::coverage::Coverage;
use crate::verify;

/// The condition that reports whether all fields are valid.
pub const ACCEPTED: &str = "Accepted";

/// The status of a policy.
pub fn status(
    policy: &GoldenImagePolicy,
    complaints: &[Complaint],
    architectures: &Architectures,
    images: Vec<ImageState>,
    coverage: &Coverage,
    now: Timestamp,
) -> GoldenImagePolicyStatus {
    let update = if complaints.is_empty() {
        ConditionUpdate::new(ACCEPTED, true, "Accepted", "all settings are valid")
    } else {
        let all: Vec<String> = complaints.iter().map(ToString::to_string).collect();
        ConditionUpdate::new(ACCEPTED, false, "InvalidSettings", all.join("; "))
    };
    let status = policy.status.as_ref();
    let before = status.map_or(&[][..], |status| &status.conditions);
    let generation = policy.metadata.generation;
    let names = |counts: &crate::architectures::Counts| counts.keys().cloned().collect();
    GoldenImagePolicyStatus {
        observed_generation: generation,
        conditions: with(
            before,
            &[&[update][..], &coverage.conditions()].concat(),
            now,
            generation,
        ),
        nodes: Some(NodeArchitectures {
            workload: names(&architectures.workload),
            control_plane: names(&architectures.control_plane),
            ignored: names(&architectures.ignored),
            default_architecture: architectures.default.architecture.clone(),
            default_reason: Some(architectures.default.why.to_string()),
        }),
        images,
        // Another layer writes them.
        verifications: status.map_or_else(Vec::new, |status| status.verifications.clone()),
    }
}

/// The status of a policy with these conditions set; everything else stays as it is.
pub fn with_conditions(
    policy: &GoldenImagePolicy,
    updates: &[ConditionUpdate],
    now: Timestamp,
) -> GoldenImagePolicyStatus {
    let mut status = policy.status.clone().unwrap_or_default();
    let generation = policy.metadata.generation;
    status.conditions = with(&status.conditions, updates, now, generation);
    status
}

/// The status of a policy with these verifications and their condition; without both for `None`.
pub fn with_verifications(
    policy: &GoldenImagePolicy,
    verifications: Option<Vec<Verification>>,
    now: Timestamp,
) -> GoldenImagePolicyStatus {
    let update = verifications.as_deref().map(verify::condition);
    let mut status = with_conditions(policy, update.as_slice(), now);
    if verifications.is_none() {
        status.conditions.retain(|it| it.type_ != verify::CONDITION);
    }
    status.verifications = verifications.unwrap_or_default();
    status
}

/// Sets conditions in a list, which other controllers write as well; theirs stay.
fn with(
    before: &[Condition],
    updates: &[ConditionUpdate],
    now: Timestamp,
    generation: Option<i64>,
) -> Vec<Condition> {
    let mut conditions = before.to_vec();
    for update in updates {
        let condition = update.standard(before, now, generation);
        match conditions.iter_mut().find(|it| it.type_ == update.kind) {
            Some(known) => *known = condition,
            None => conditions.push(condition),
        }
    }
    // A fixed order, whichever controller is first.
    conditions.sort_by(|one, other| one.type_.cmp(&other.type_));
    conditions
}
