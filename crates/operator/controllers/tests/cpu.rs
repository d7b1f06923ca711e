//! CPU models end to end: an API server with the kinds of a stock KubeVirt, a simulated fleet that runs
//! them, our admission check and our controller, each with the rights that are shipped and no others.
//!
//! Everywhere somebody watches: an instance that was handed over without its model is a failure.

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
