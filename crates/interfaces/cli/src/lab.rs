//! The lab: an embedded API server, a simulated fleet, and the commands that run on them. None of it is part of the
//! program that runs in a cluster (`--no-default-features`).

pub(crate) mod apiserver;
mod embedded;
pub(crate) mod envtest;
pub(crate) mod fleet;
pub(crate) mod offline;
mod restore;
pub(crate) mod up;
