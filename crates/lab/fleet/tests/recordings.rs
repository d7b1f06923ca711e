//! Stand-ins write what the programs that they stand for were seen to write, and nothing else.
//!
//! A recording is checked again by the genuine suite, `tests/beside_*.rs` of the workspace, with the same story.

#[path = "recordings/cdi.rs"]
mod cdi;
#[path = "recordings/descheduler.rs"]
mod descheduler;
#[path = "recordings/kubevirt.rs"]
mod kubevirt;
#[path = "../recordings/kubevirt/roles.rs"]
mod roles;
