//! The cluster view shared by controllers and webhooks: caches of the objects decisions depend on, and
//! the state derived from them by the pure crates.
//!
//! Admission and reconciliation read the same view, so that a report never contradicts a decision for long.

pub mod cpu;
pub mod placement;
