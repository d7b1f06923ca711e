//! The cluster view: the objects that decisions depend on, and the state derived from them by the pure crates.
//!
//! Controllers and webhooks use the live views ([`cpu::CpuView`], [`placement::PlacementView`]), which caches keep
//! current; the console follows its users' own caches ([`nodes::NodeView`]); commands read a snapshot once
//! ([`cpu::CpuSnapshot`], [`placement::PlacementSnapshot`], [`images::ImageObjects`]). All of them derive the same
//! state from the same objects, so that a report never contradicts a decision for long.

pub mod coverage;
pub mod cpu;
pub mod history;
pub mod images;
pub mod layers;
pub mod list;
pub mod network;
pub mod nodes;
pub mod operators;
pub mod placement;
pub mod policies;
pub mod release;
pub mod rivals;
mod settings;
