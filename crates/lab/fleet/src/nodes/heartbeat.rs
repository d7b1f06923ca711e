//! Heartbeats: node leases and their intervals.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, OwnerReference};
use k8s_openapi::jiff::Timestamp;
use kube::api::ObjectMeta;
use runtime::{Absent as _, Error, Key, Writer};
use serde_json::json;

use crate::names::name_of;

const NAMESPACE: &str = "kube-node-lease";
/// Lease renewal interval of a kubelet.
const RENEW_EVERY: Duration = Duration::from_secs(10);
/// Renewals per second over all nodes: larger fleets renew each lease less often.
// Real kubelets have CPUs of their own; here thousands of them share the cores with the control
// plane they keep alive. The node lifecycle controller honours longer lease durations.
const MAX_RENEWALS_PER_SECOND: u64 = 50;
/// Interval in which a kubelet reports an unchanged status.
const REPORT_EVERY: Duration = Duration::from_mins(5);
/// Reports of unchanged status per second over all nodes.
const MAX_REPORTS_PER_SECOND: u64 = 10;
/// Lease duration in renewal intervals, as the kubelet's 40 s are four times 10 s.
const LEASE_INTERVALS: u32 = 4;

/// Renewal interval for a fleet of this size.
pub(super) fn renew_every(nodes: usize) -> Duration {
    at_most(nodes, MAX_RENEWALS_PER_SECOND).max(RENEW_EVERY)
}

/// Report interval for a fleet of this size.
pub(super) fn report_every(nodes: usize) -> Duration {
    at_most(nodes, MAX_REPORTS_PER_SECOND).max(REPORT_EVERY)
}

fn at_most(nodes: usize, a_second: u64) -> Duration {
    let nodes = u64::try_from(nodes).unwrap_or(u64::MAX);
    Duration::from_secs(nodes / a_second)
}

/// Renews the lease of a node, or creates it.
pub(super) async fn renew(
    leases: &Writer<Lease>,
    node: &Node,
    every: Duration,
) -> Result<(), Error> {
    let name = name_of(&node.metadata);
    let seconds = i32::try_from((every * LEASE_INTERVALS).as_secs()).unwrap_or(i32::MAX);
    let now = MicroTime(Timestamp::now());
    let patch = json!({ "spec": {
        "holderIdentity": name, "leaseDurationSeconds": seconds, "renewTime": now,
    }});
    let renewed = leases.merge(&Key::new(NAMESPACE, name), &patch).await;
    if renewed.not_found_as_none()?.is_some() {
        return Ok(());
    }
    let lease = Lease {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(NAMESPACE.to_owned()),
            owner_references: Some(vec![OwnerReference {
                api_version: "v1".into(),
                kind: "Node".into(),
                name: name.to_owned(),
                uid: node.metadata.uid.clone().unwrap_or_default(),
                ..OwnerReference::default()
            }]),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(name.to_owned()),
            lease_duration_seconds: Some(seconds),
            renew_time: Some(now),
            ..LeaseSpec::default()
        }),
    };
    leases.create(&lease).await.map(drop)
}
