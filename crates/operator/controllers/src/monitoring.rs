//! Alerts and metrics of all jobs.

#[cfg(test)]
mod tests;

use api::monitoring::Alert;
use kube::Client;
use kube::client::Body;
use runtime::Manager;
use runtime::metrics::{Described, Metrics};

use crate::{Job, job};

/// All alerts, by feature.
pub const ALERTS: [(&str, &[Alert]); 5] = [
    ("Governance", &::governance::alerts::ALERTS),
    ("Golden images", &golden_images::alerts::ALERTS),
    ("CPU models", &cpu_models::alerts::ALERTS),
    ("Release migration", &::release_migration::alerts::ALERTS),
    ("Placement", &::placement::alerts::ALERTS),
];

/// Metrics of every process that runs controllers.
pub fn common_metrics() -> Vec<Described> {
    Metrics::default().described()
}

/// Metrics of one job besides the common ones. Call within a Tokio runtime.
pub fn metrics(job: Job) -> Vec<Described> {
    let manager = Manager::new(unconnected_client());
    job::declare(job, &manager);
    let common = common_metrics();
    let mut own = manager.metrics().described();
    own.retain(|metric| !common.contains(metric));
    own
}

/// A client that never answers: registering metrics sends no requests.
fn unconnected_client() -> Client {
    let service = tower::service_fn(|_: http::Request<Body>| {
        std::future::pending::<Result<http::Response<Body>, kube::Error>>()
    });
    Client::new(service, "default")
}
