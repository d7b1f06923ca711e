//! StatefulSets, Jobs, CronJobs and disruption budgets, run by our controllers.
//!
//! There are no nodes here: the tests say what becomes of pods.

#[path = "common/controllers.rs"]
mod controllers;
#[path = "batch/cron_job.rs"]
mod cron_job;
#[path = "batch/disruption.rs"]
mod disruption;
#[path = "batch/job.rs"]
mod job;
#[path = "batch/kubectl.rs"]
mod kubectl;
#[path = "batch/looks.rs"]
mod looks;
#[path = "batch/stateful_set.rs"]
mod stateful_set;
#[path = "batch/world.rs"]
mod world;
