//! ReplicaSets, Deployments and DaemonSets against a server.
//!
//! Nobody runs pods here: `Stage::keep_running` says that they run, which is all that the
//! controllers see of a kubelet. Pods without a node go at once when they are deleted.

mod rollout {
    pub mod adoption;
    pub mod deployments;
    pub mod kubectl;
    pub mod stage;
}
