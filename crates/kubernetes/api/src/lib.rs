//! Medley's kinds as types and CustomResourceDefinitions, and partial types of the kinds of other
//! projects.
//!
//! A kind is a module: its types are what the program reads and writes, its `definition` is what the
//! API server accepts. Both are written by hand, so that the CRD equals the published one exactly; a
//! test keeps them consistent.
//!
//! The type of another project's kind has only the fields used here. All other fields are kept in
//! `rest` and written back unchanged.
//!
//! Besides, there are RBAC rules (`rbac`) and alerts (`monitoring`), in the form all crates use,
//! what a Node (`node`) and the running Medley (`published`) report about themselves, and how genuine
//! operators are found (`operators`) and decide the mode of a controller beside them (`mode`).

pub mod advisor;
pub mod approval;
pub mod cdi;
pub mod condition;
pub mod cpu;
mod definition;
pub mod golden;
pub mod hco;
pub mod kubevirt;
pub mod mode;
pub mod monitoring;
pub mod node;
pub mod openshift;
pub mod operators;
pub mod placement;
pub mod profile;
pub mod published;
pub mod rbac;
pub mod reasons;
pub mod release;
pub mod ssp;

/// Fields of another project's kind that Medley does not use, as read.
pub type Rest = std::collections::BTreeMap<String, serde_json::Value>;
