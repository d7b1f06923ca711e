//! The picture of a cluster that controllers and webhooks share: caches of the objects that decisions rest on, and what the
//! pure crates make of them.
//!
//! Admission and reconciliation read the same view, so that a report never contradicts a decision for long.

pub mod cpu;
pub mod placement;
