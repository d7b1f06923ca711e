//! Boot images for every architecture of a cluster, kept up to date behind one stable name.
//!
//! ```text
//! nodes --architectures--> the architectures of the cluster, and the default
//! HyperConverged + built-in --hco--> SSP, status          the desired images
//! SSP + live objects -------------ssp--> DataImportCrons, DataSources, pointers, templates
//! DataImportCron + registry ------cdi--> imports, and cloneable sources
//! VirtualMachine -----------------vm---> its architecture
//! ```
//!
//! Every layer is one `decide` function: inputs in, writes and their reasons out. Nothing here
//! reads a cluster, a registry or a clock. Decisions are idempotent: once one is applied, the next
//! is empty.

pub mod action;
pub mod alerts;
pub mod architectures;
pub mod cdi;
pub mod conditions;
pub mod coverage;
pub mod dashboard;
pub mod hand_over;
pub mod hco;
pub mod history;
pub mod layers;
pub mod list;
pub mod names;
pub mod overview;
pub mod pins;
pub mod policy;
pub mod reasons;
pub mod roles;
pub mod ssp;
pub mod upstream_pins;
pub mod verify;
pub mod vm;

#[cfg(test)]
mod test_values;
