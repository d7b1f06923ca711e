//! Releases end to end: an API server with the OpenShift CRDs, a stand-in for the cluster version operator and the
//! cluster operators, and our controller with the RBAC that is shipped and no more.

#[path = "common/rivals.rs"]
mod rivals;
#[path = "release/stage.rs"]
mod stage;

#[path = "release/kinds.rs"]
mod kinds;
#[path = "release/observe.rs"]
mod observe;
#[path = "release/own.rs"]
mod own;
#[path = "release/payloads.rs"]
mod payloads;
