//! Releases end to end: an API server with the kinds of OpenShift, somebody who plays the cluster version
//! operator and the cluster operators, and our controller with the rights that are shipped and no others.

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
