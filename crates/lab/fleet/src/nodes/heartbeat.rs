//! Signs of life: leases, and how often.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, OwnerReference};
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use runtime::{Absent, Error};
use serde_json::json;

const NAMESPACE: &str = "kube-node-lease";
/// How often a kubelet renews its lease.
const RENEW_EVERY: Duration = Duration::from_secs(10);
/// Renewals a second, of all nodes together: more nodes renew less often.
const RENEWALS: u64 = 50;
/// How often a kubelet reports a status that has not changed.
const REPORT_EVERY: Duration = Duration::from_mins(5);
/// Such reports a second, of all nodes together.
const REPORTS: u64 = 10;
/// A lease holds for so many renewals, as a kubelet's 40 s do.
const MISSED: u32 = 4;

/// How often each of so many nodes renews its lease.
pub(super) fn renew_every(nodes: usize) -> Duration {
    at_most(nodes, RENEWALS).max(RENEW_EVERY)
}

/// How often each of so many nodes reports a status that has not changed.
pub(super) fn report_every(nodes: usize) -> Duration {
    at_most(nodes, REPORTS).max(REPORT_EVERY)
}

fn at_most(nodes: usize, a_second: u64) -> Duration {
    let nodes = u64::try_from(nodes).unwrap_or(u64::MAX);
    Duration::from_secs(nodes / a_second)
}

/// Renews the lease of a node, or creates it.
pub(super) async fn renew(client: &Client, node: &Node, every: Duration) -> Result<(), Error> {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let api: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let seconds = i32::try_from((every * MISSED).as_secs()).unwrap_or(i32::MAX);
    let now = MicroTime(Timestamp::now());
    let patch = json!({ "spec": {
        "holderIdentity": name, "leaseDurationSeconds": seconds, "renewTime": now,
    }});
    let renewed = api
        .patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .or_absent()
        .map_err(Error::api(format!("renew lease {NAMESPACE}/{name}")))?;
    if renewed.is_some() {
        return Ok(());
    }
    let lease = Lease {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
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
    api.create(&PostParams::default(), &lease)
        .await
        .map(drop)
        .map_err(Error::api(format!("create lease {NAMESPACE}/{name}")))
}
