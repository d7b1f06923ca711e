//! ReplicaSets, Deployments and DaemonSets with an API server.
//!
//! No kubelet runs here: `Stage::keep_running` sets the status of pods to running, which is all
//! that the controllers see of a kubelet. Pods without a node are removed at once when they are
//! deleted.

#[path = "common/controllers.rs"]
mod controllers;

mod rollout {
    pub(crate) mod adoption;
    pub(crate) mod daemon_sets;
    pub(crate) mod deployments;
    pub(crate) mod kubectl;
    pub(crate) mod stage;
    pub(crate) mod written_objects;
}
