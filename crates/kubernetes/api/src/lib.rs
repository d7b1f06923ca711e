//! The kinds that Medley owns, as types and as definitions for the API server; and narrow views of
//! the kinds of others that it reads and writes.
//!
//! A kind is a module: its types say what the program reads and writes, its `definition` says what
//! the API server accepts. Both are written by hand, so that the definition is the published one to
//! the letter; a test holds them together.
//!
//! A view of somebody else's kind names the fields that matter here. Whatever else an object has is
//! kept in `rest` and written back as it was read.
//!
//! Besides, there is what every job says of itself in the same words: rights (`rbac`)
//! and alerts (`monitoring`).

pub mod advisor;
pub mod approval;
pub mod cdi;
pub mod condition;
pub mod cpu;
mod definition;
pub mod golden;
pub mod hco;
pub mod kubevirt;
pub mod monitoring;
pub mod openshift;
pub mod placement;
pub mod rbac;
pub mod release;
pub mod ssp;
pub mod words;

/// Fields of somebody else's kind that Medley does not look at, as they were read.
pub type Rest = std::collections::BTreeMap<String, serde_json::Value>;
