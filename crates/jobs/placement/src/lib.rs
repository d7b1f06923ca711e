//! Pods only where their images can run.
//!
//! ```text
//! pod --images--> which images it uses, and where
//!                      | looked up by the caller: Knowledge
//! nodes --Cluster--> kinds of places (os, architecture, variant, build of Windows)
//!                      |
//! pod + Knowledge + Cluster + Settings --decide--> Decision: leave alone, ask first, place, or no fit
//!                                                      |
//!                                        Placement --change--> the pod, narrowed
//!
//! PlacementPolicies --Policies::select--> the Policy of a pod
//! pod that is made + Policy --admit--> Answer: pass, changed or not; refuse; ask first
//! pod at the gate + Policy --settle--> Settled: release, hold, ask first
//! ```
//!
//! Nothing here reads a cluster or a registry. What a user wrote is only ever narrowed: whatever is
//! added to a pod is one more condition, and a pod that was placed is left alone when it comes again.

mod admit;
pub mod alerts;
mod change;
mod cluster;
pub mod containerd;
pub mod dashboard;
mod decide;
mod explain;
mod fit;
mod gated;
mod handler;
mod images;
mod memory;
pub mod names;
mod no_fit;
mod policy;
mod remedy;
pub mod roles;
pub mod runtime_classes;
mod settings;
mod status;
mod survey;
pub mod words;

#[cfg(test)]
mod test_values;

pub use admit::{Answer, Pass, admit, gated, remarked};
pub use change::Moment;
pub use cluster::{Cluster, Node, Place, Runtime};
pub use decide::{Decision, Leave, Placement, decide};
pub use explain::{Explanation, PlaceExplained, explain};
pub use fit::{Demand, Product};
pub use gated::{NOT_INSPECTED, Notice, Settled, changes, is_gated, settle};
pub use handler::Handler;
pub use images::{Knowledge, Platforms, Uninspectable, Use, Used, images};
pub use no_fit::{NoFit, Shortfall, is_shortfall};
pub use policy::{Passed, Policies, Policy};
pub use remedy::{Remedy, remedies};
pub use settings::{RuntimeClass, Settings};
pub use status::{Facts, status};
pub use survey::{Coverage, PlaceCoverage, Stuck, Survey, Surveyed, survey};
