//! ReplicaSets, Deployments and DaemonSets against a server.
//!
//! Nobody runs pods here: `Stage::keep_running` says that they run, which is all that the
//! controllers see of a kubelet. Pods without a node go at once when they are deleted.

#[path = "common/controllers.rs"]
mod controllers;

mod rollout {
    pub(crate) mod adoption;
    pub(crate) mod daemon_sets;
    pub(crate) mod deployments;
    pub(crate) mod kubectl;
    pub(crate) mod looks;
    pub(crate) mod stage;
}
