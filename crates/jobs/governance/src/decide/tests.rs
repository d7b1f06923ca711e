//! The state machine, step by step, on a simulated cluster.

mod applying;
mod approving;
mod batching;
mod cluster;
mod degrading;
mod density;
mod drifting;
mod executing;
mod holding;
mod kills;
mod laws;
mod planning;
mod pools;
pub(crate) mod profiles;
mod retrying;
mod stories;
mod trust;
mod truth;
mod undoing;
mod verifying;
mod wellbeing;
mod world;

pub(crate) use cluster::merge;
pub(crate) use world::Simulation;
