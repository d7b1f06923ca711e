//! Places pods only on nodes that can run their images.
//!
//! ```text
//! pod --images--> the images it uses, and where
//!                      | inspected by the caller: Inspection
//! nodes --Cluster--> node platforms (os, architecture, variant, Windows build)
//!                      |
//! pod + Inspection + Cluster + Settings --decide--> Decision: leave, inspect first, place, or no fit
//!                                                      |
//!                                        Placement --change--> the pod, narrowed
//!
//! PlacementPolicies --Policies::select--> the Policy of a pod
//! new pod + Policy --admit--> Admission: allow, mutated or not; deny; inspect first
//! gated pod + Policy --settle--> GatedDecision: release, hold, inspect first
//! ```
//!
//! Nothing here reads a cluster or a registry. User constraints are only narrowed: placement adds conditions, never
//! alternatives, and placing a pod a second time changes nothing.

mod admit;
pub mod alerts;
mod change;
mod cluster;
pub mod containerd;
pub mod dashboard;
mod decide;
mod exempt;
mod explain;
mod fit;
mod gated;
pub mod hand_over;
mod handler;
mod images;
mod inspection;
mod liveness;
pub mod multiarch;
pub mod names;
mod no_fit;
mod nodes;
pub mod ownership;
mod policy;
pub mod reasons;
mod remedy;
pub mod roles;
pub mod runtime_classes;
mod settings;
mod status;
mod survey;

#[cfg(test)]
mod test_values;

pub use admit::{Admission, Allowed, NeedsInspection, admit, admit_uninspected, parse_reason};
pub use change::ChangeStage;
pub use cluster::{Cluster, Node, NodePlatform, Runtime};
pub use decide::{Decision, LeaveReason, Placement, decide};
pub use exempt::ExemptNamespaces;
pub use explain::{Explanation, PlatformExplanation, explain};
pub use fit::{Demand, Fit, Product};
pub use gated::{
    GatedDecision, NOT_INSPECTED, Notice, changes, decide_gated, is_gated, release_abandoned,
    release_without_affinity,
};
pub use handler::Handler;
pub use images::{ImageConsumer, ImageUse, Inspection, Platforms, Uninspectable, images};
pub use inspection::{
    FIRST_RETRY_DELAY, GateWait, InspectionAccess, NextInspection, final_result, give_up,
    next_inspection, retry_delay,
};
pub use liveness::{Controller, LEASE, LeaseRead, LeaseTiming, ObservedLease};
pub use no_fit::{NoFit, Shortfall, is_shortfall};
pub use nodes::{FitKey, FitMemo, Nodes};
pub use policy::{Policies, Policy, Skip};
pub use remedy::{Remedy, remedies};
pub use settings::{RuntimeClass, Settings};
pub use status::{PolicyStatusInputs, status};
pub use survey::{Coverage, PlatformCoverage, PodSummary, Survey, UnrunnablePod, survey};
