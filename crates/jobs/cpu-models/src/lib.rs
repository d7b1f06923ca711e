//! Chooses the newest CPU model that a virtual machine can still migrate with.
//!
//! ```text
//! nodes --upsert/remove--> Index      bit sets by label, vendor, taint
//! CpuModelPolicy ---------> Policy    table of models, threshold, eligible nodes
//! VMI --------------------> Machine   its demands on a node
//!
//! Index + Policy + Machine + its node --decide---> Decision    the model, and why
//!                                     --explain--> Explanation every node, and what more would add
//!                                     --review---> Review      stale, stranded, number of targets
//! two of Index + Policy, all VMs -------what_if--> Outcome     the VMs that would be affected
//! Machine at admission ----------------admission-> errors, warnings, the model to write
//! Machine's pods ----------------------launcher--> Placement   their node selector and affinity
//! Machine without a node --------------prospects-> Prospects   whether any model can be chosen
//! two Reviews of a VM -----------------report----> Notice      the events to emit
//! ```
//!
//! Nothing here reads a cluster or a clock. A decision works on bit sets and never scans all nodes.

pub mod admission;
pub mod alerts;
pub mod dashboard;
pub mod decide;
pub mod demand;
pub mod explain;
pub mod groups;
pub mod index;
pub mod instance;
pub mod launcher;
pub mod machine;
pub mod matrix;
pub mod names;
pub mod policy;
pub mod prospects;
pub mod reasons;
pub mod report;
pub mod resources;
pub mod review;
pub mod roles;
pub mod running;
pub mod settings;
pub mod table;
pub mod what_if;

pub use decide::{Decision, ModelVerdict, Survey, decide};
pub use demand::Demand;
pub use explain::{Explanation, explain};
pub use index::Index;
pub use index::node::{NodeInputs, host_model_of};
pub use machine::{Machine, Requested, RunningVm};
pub use policy::Policy;
pub use review::{Review, review};
pub use settings::Settings;
pub use what_if::what_if;

#[cfg(test)]
mod test_values;
