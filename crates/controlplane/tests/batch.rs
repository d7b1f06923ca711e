//! StatefulSets, Jobs, CronJobs and disruption budgets, run by our controllers.
//!
//! There are no nodes here: the tests say what becomes of pods.

#[path = "batch/cron_job.rs"]
mod cron_job;
#[path = "batch/disruption.rs"]
mod disruption;
#[path = "batch/job.rs"]
mod job;
#[path = "batch/stateful_set.rs"]
mod stateful_set;
#[path = "batch/world.rs"]
mod world;
