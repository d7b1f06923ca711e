//! The status of a GoldenImagePolicy.

use api::golden::{GoldenImagePolicy, GoldenImagePolicyStatus, ImageState, NodeArchitectures};
use jiff::Timestamp;

use super::Complaint;
use crate::architectures::Architectures;
use crate::conditions::ConditionUpdate;
use crate::upstream::RunningOperator;

/// The condition that reports whether all fields are valid.
pub const ACCEPTED: &str = "Accepted";
/// The condition that reports whether Medley or the upstream operator manages images.
pub const MANAGING: &str = "Managing";

/// The status of a policy.
pub fn status(
    policy: &GoldenImagePolicy,
    complaints: &[Complaint],
    architectures: &Architectures,
    images: Vec<ImageState>,
    upstream: Option<&RunningOperator>,
    now: Timestamp,
) -> GoldenImagePolicyStatus {
    let update = if complaints.is_empty() {
        ConditionUpdate::new(ACCEPTED, true, "Accepted", "all settings are valid")
    } else {
        let all: Vec<String> = complaints.iter().map(ToString::to_string).collect();
        ConditionUpdate::new(ACCEPTED, false, "InvalidSettings", all.join("; "))
    };
    let managing = match upstream {
        None => ConditionUpdate::new(MANAGING, true, MANAGING, "images-ssp manages images"),
        Some(running) => {
            ConditionUpdate::new(MANAGING, false, "UpstreamOperatorRuns", running.to_string())
        }
    };
    let before = policy.status.as_ref();
    let before = before.map_or(&[][..], |status| &status.conditions);
    let generation = policy.metadata.generation;
    let names = |counts: &crate::architectures::Counts| counts.keys().cloned().collect();
    GoldenImagePolicyStatus {
        observed_generation: generation,
        conditions: [update, managing]
            .map(|it| it.standard(before, now, generation))
            .into(),
        nodes: Some(NodeArchitectures {
            workload: names(&architectures.workload),
            control_plane: names(&architectures.control_plane),
            ignored: names(&architectures.ignored),
            default_architecture: architectures.default.architecture.clone(),
            default_reason: Some(architectures.default.why.to_string()),
        }),
        images,
    }
}
