//! CPU models end to end: an API server with the CRDs of a stock KubeVirt, a simulated fleet that runs the instances,
//! our webhook and our controller, each with the RBAC that is shipped and no more.
//!
//! Every test watches all instances: one that was handed over without its model is a failure.

#[path = "common/jobs.rs"]
mod jobs;
#[path = "common/ours.rs"]
mod ours;
#[path = "cpu/stage.rs"]
mod stage;

#[path = "cpu/admission.rs"]
mod admission;
#[path = "cpu/down.rs"]
mod down;
#[path = "cpu/life.rs"]
mod life;
#[path = "cpu/reports.rs"]
mod reports;
#[path = "cpu/slipped.rs"]
mod slipped;
#[path = "cpu/stories.rs"]
mod stories;
