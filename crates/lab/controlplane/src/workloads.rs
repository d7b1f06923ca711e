//! Controllers of workloads.

mod cron_job;
mod daemon_set;
mod deployment;
mod disruption;
mod history;
mod job;
mod pods;
mod replica_set;
mod stateful_set;
mod ttl_after_finished;

use runtime::Manager;

/// Starts the controllers of all workloads.
pub async fn start(manager: &Manager) {
    tokio::join!(
        cron_job::start(manager),
        daemon_set::start(manager),
        deployment::start(manager),
        disruption::start(manager),
        job::start(manager),
        replica_set::start(manager),
        stateful_set::start(manager),
        ttl_after_finished::start(manager),
    );
}
