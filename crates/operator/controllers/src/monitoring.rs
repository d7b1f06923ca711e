//! What is told of all jobs together: their alerts and their metrics.

#[cfg(test)]
mod tests;

use api::monitoring::Alert;
use kube::Client;
use kube::client::Body;
use runtime::Manager;
use runtime::metrics::{Described, Metrics};

use crate::{Job, job};

/// All alerts, by what they are about.
pub const ALERTS: [(&str, &[Alert]); 5] = [
    ("Governance", &::governance::alerts::ALERTS),
    ("Golden images", &golden_images::alerts::ALERTS),
    ("CPU models", &cpu_models::alerts::ALERTS),
    ("Release migration", &::release_migration::alerts::ALERTS),
    ("Placement", &::placement::alerts::ALERTS),
];

/// What every process tells that has controllers.
pub fn common_metrics() -> Vec<Described> {
    Metrics::default().described()
}

/// What a job tells besides. Call within a runtime.
pub fn metrics(job: Job) -> Vec<Described> {
    let manager = Manager::new(nobody());
    job::declare(job, &manager);
    let common = common_metrics();
    let mut own = manager.metrics().described();
    own.retain(|metric| !common.contains(metric));
    own
}

/// A client of no cluster: nothing is asked when only names are given.
fn nobody() -> Client {
    let service = tower::service_fn(|_: http::Request<Body>| {
        std::future::pending::<Result<http::Response<Body>, kube::Error>>()
    });
    Client::new(service, "default")
}
