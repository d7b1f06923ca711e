//! The newest CPU model that a virtual machine can still migrate with.
//!
//! ```text
//! nodes --upsert/remove--> Index      bits by label, vendor, taint
//! CpuModelPolicy ---------> Policy    table of models, threshold, which nodes count
//! VMI --------------------> Machine   what it demands of a node
//!
//! Index + Policy + Machine + its node --decide---> Decision   the model, and why
//!                                     --explain--> Explanation every node, and what one more would change
//!                                     --review---> Review     stale, stranded, how many nodes could take it
//! two of Index + Policy, all machines --what_if--> what changes
//! Machine's pods ---------------------launcher---> the nodes that they ask for
//! Machine, before it has a node ------prospects--> whether a model will do anywhere
//! two Reviews of a machine -----------report-----> what people are told
//! ```
//!
//! Nothing here reads a cluster or a clock. A decision looks at bits, never at every node.

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
pub mod report;
pub mod review;
pub mod roles;
pub mod running;
pub mod settings;
pub mod table;
pub mod what_if;
pub mod words;

pub use decide::{Decision, Survey, Verdict, decide};
pub use demand::Demand;
pub use explain::{Explanation, explain};
pub use index::Index;
pub use index::node::{NodeFacts, architecture_of, host_model_of};
pub use machine::{Machine, Requested, Running};
pub use policy::Policy;
pub use review::{Review, review};
pub use settings::Settings;
pub use what_if::what_if;

#[cfg(test)]
mod test_values;
