//! What a GoldenImagePolicy says about the cluster.

use api::golden::{GoldenImagePolicy, GoldenImagePolicyStatus, ImageState, NodeArchitectures};
use jiff::Timestamp;

use super::Complaint;
use crate::architectures::Architectures;
use crate::conditions::Said;

/// The condition that says whether everything in a policy makes sense.
pub const ACCEPTED: &str = "Accepted";

/// The status of a policy.
pub fn status(
    policy: &GoldenImagePolicy,
    complaints: &[Complaint],
    architectures: &Architectures,
    images: Vec<ImageState>,
    now: Timestamp,
) -> GoldenImagePolicyStatus {
    let said = if complaints.is_empty() {
        Said::new(ACCEPTED, true, "Accepted", "everything in it counts")
    } else {
        let all: Vec<String> = complaints.iter().map(ToString::to_string).collect();
        Said::new(ACCEPTED, false, "InvalidSettings", all.join("; "))
    };
    let before = policy.status.as_ref();
    let before = before.map_or(&[][..], |status| &status.conditions);
    let generation = policy.metadata.generation;
    let names = |counts: &crate::architectures::Counts| counts.keys().cloned().collect();
    GoldenImagePolicyStatus {
        observed_generation: generation,
        conditions: vec![said.standard(before, now, generation)],
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
