//! Objects for the Prometheus Operator, service monitors and alerts, and Grafana dashboards.

use api::monitoring::service_monitor;
use serde_json::{Value, json};

use crate::dashboards::{DASHBOARDS, WHEN};
use crate::entry::{Entry, Fill, Part, When};
use crate::openshift::{certify, metrics_secret, verify};
use crate::workloads::METRICS_PORT;
use crate::{ACCOUNT, Job, WEBHOOK, labels};

/// All entries, for the jobs that run.
pub(crate) fn entries(fill: &Fill) -> Vec<Entry> {
    let namespace = &fill.namespace;
    let rules: [(When, &str, Value); 5] = [
        // They include those about the operator itself.
        (
            When::Always,
            "alerts",
            governance::alerts::prometheus_rule(namespace),
        ),
        (
            When::Any(&[Job::CpuModels]),
            "cpu-models",
            cpu_models::alerts::prometheus_rule(namespace),
        ),
        (
            When::Any(Job::IMAGES),
            "golden-images",
            golden_images::alerts::prometheus_rule(namespace),
        ),
        (
            When::Any(&[Job::Placement]),
            "placement",
            placement::alerts::prometheus_rule(namespace),
        ),
        (
            When::Any(&[Job::Release]),
            "release",
            release_migration::alerts::prometheus_rule(namespace),
        ),
    ];
    let checked = When::Any(Job::CHECKED);
    let monitors = [
        (When::Always, "metrics", service(fill)),
        (When::Always, "metrics", monitor(fill, ACCOUNT)),
        // Its Service is the one that the API server calls; metrics have a port of their own.
        (checked, "metrics", monitor(fill, WEBHOOK)),
    ];
    let dashboards = WHEN.into_iter().zip(DASHBOARDS).map(|(when, dashboard)| {
        let object = dashboard.config_map(namespace);
        (when, "dashboards", object)
    });
    let all = rules.into_iter().chain(monitors).chain(dashboards);
    all.map(|(when, file, object)| {
        let file = format!("monitoring/{file}.yaml");
        Entry::new(Part::Monitoring, when, file, vec![object])
    })
    .collect()
}

/// The headless Service of the operator's metrics, so that every replica is scraped.
fn service(fill: &Fill) -> Value {
    let namespace = &fill.namespace;
    let mut service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": ACCOUNT, "namespace": namespace, "labels": labels(ACCOUNT) },
        "spec": {
            "clusterIP": "None",
            "selector": labels(ACCOUNT),
            "ports": [{
                "name": "metrics", "port": METRICS_PORT, "targetPort": "metrics", "protocol": "TCP",
            }],
        },
    });
    certify(
        fill,
        &mut service,
        When::OpenshiftMonitoring,
        &metrics_secret(ACCOUNT),
    );
    service
}

/// The ServiceMonitor of a Service.
fn monitor(fill: &Fill, name: &str) -> Value {
    let mut monitor = service_monitor(name, &fill.namespace, &labels(name), "metrics");
    verify(fill, &mut monitor, name);
    monitor
}
