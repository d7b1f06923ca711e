//! StatefulSets, Jobs, CronJobs and disruption budgets with our controllers.
//!
//! There are no nodes here: the tests write the status of pods.

#[path = "common/controllers.rs"]
mod controllers;
#[path = "batch/cron_job.rs"]
mod cron_job;
#[path = "batch/disruption.rs"]
mod disruption;
#[path = "batch/fixture.rs"]
mod fixture;
#[path = "batch/job.rs"]
mod job;
#[path = "batch/kubectl.rs"]
mod kubectl;
#[path = "batch/stateful_set.rs"]
mod stateful_set;
#[path = "batch/written_objects.rs"]
mod written_objects;
