//! Leader election, renewal and takeover.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use testkit::TestCluster;

use super::decide::{LeaseStep, decide, release};
use super::{Election, Leadership, Timing};
use crate::WriteFence;

const WAIT_TIMEOUT: Duration = Duration::from_mins(1);

fn election(namespace: &str, identity: &str, timing: Timing) -> Election {
    Election {
        namespace: namespace.to_owned(),
        name: "leader".to_owned(),
        identity: identity.to_owned(),
        timing,
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

fn spec(holder: &str, acquired: i64, renewed: i64, seconds: i32, transitions: i32) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: Some(seconds),
        acquire_time: Some(MicroTime(at(acquired))),
        renew_time: Some(MicroTime(at(renewed))),
        lease_transitions: Some(transitions),
        ..LeaseSpec::default()
    }
}

#[test]
fn lease_is_taken_over_only_after_its_duration_without_change() {
    let me = election("here", "me", Timing::default());
    let hold = |acquired, transitions| LeaseStep::Hold(spec("me", acquired, 100, 15, transitions));
    let wait = || LeaseStep::Wait("other".to_owned());
    for (what, lease, unchanged, expected) in [
        ("no lease", None, 0, hold(100, 0)),
        ("an empty one", Some(LeaseSpec::default()), 0, hold(100, 1)),
        ("released", Some(spec("", 0, 99, 1, 3)), 0, hold(100, 4)),
        (
            "mine: since I took it",
            Some(spec("me", 7, 98, 15, 3)),
            2,
            hold(7, 3),
        ),
        (
            "mine, long ago",
            Some(spec("me", 7, 8, 15, 3)),
            90,
            hold(7, 3),
        ),
        ("fresh", Some(spec("other", 0, 99, 15, 3)), 1, wait()),
        ("nearly over", Some(spec("other", 0, 86, 15, 3)), 14, wait()),
        ("over", Some(spec("other", 0, 85, 15, 3)), 15, hold(100, 4)),
        // Clocks differ: an old renew time in a lease that keeps changing means nothing.
        (
            "old by its clock",
            Some(spec("other", 0, -900, 15, 3)),
            1,
            wait(),
        ),
        (
            "new by its clock",
            Some(spec("other", 0, 900, 15, 3)),
            15,
            hold(100, 4),
        ),
        (
            "granted for longer",
            Some(spec("other", 0, 60, 60, 3)),
            40,
            wait(),
        ),
        (
            "granted for less",
            Some(spec("other", 0, 94, 5, 3)),
            6,
            hold(100, 4),
        ),
    ] {
        let unchanged = Duration::from_secs(unchanged);
        let step = decide(lease.as_ref(), unchanged, &me, at(100));
        assert_eq!(step, expected, "{what}");
    }
}

#[test]
fn only_the_holder_releases_a_lease() {
    let mine = spec("me", 7, 98, 15, 3);
    let released = release(Some(&mine), "me", at(100));
    assert_eq!(released, Some(spec("", 100, 100, 1, 3)));
    assert_eq!(release(Some(&mine), "other", at(100)), None);
    assert_eq!(release(None, "me", at(100)), None);
}

/// Fast enough for a test; leases last whole seconds.
const QUICK: Timing = Timing {
    lease: Duration::from_secs(3),
    renew: Duration::from_millis(2800),
    retry: Duration::from_millis(100),
};

async fn acquire(client: &Client, namespace: &str, identity: &str) -> anyhow::Result<Leadership> {
    let election = election(namespace, identity, QUICK);
    let acquired = election.acquire(client.clone(), WriteFence::follower());
    Ok(tokio::time::timeout(WAIT_TIMEOUT, acquired).await?)
}

async fn lease(client: &Client, namespace: &str) -> anyhow::Result<LeaseSpec> {
    let api: Api<Lease> = Api::namespaced(client.clone(), namespace);
    Ok(api.get("leader").await?.spec.unwrap_or_default())
}

#[tokio::test]
async fn standby_takes_over_after_the_leader_is_gone() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let namespace = cluster.namespace("leader").await?;
    let client = cluster.client();

    let mut first = acquire(&client, &namespace, "first").await?;
    let mut second = Box::pin(acquire(&client, &namespace, "second"));
    tokio::select! {
        error = first.keep() => anyhow::bail!("lost: {error}"),
        _ = &mut second => anyhow::bail!("two lead"),
        () = tokio::time::sleep(QUICK.lease * 3 / 2) => {}
    }
    let held = lease(&client, &namespace).await?;
    assert_eq!(held.holder_identity.as_deref(), Some("first"));
    assert_eq!(held.lease_transitions, Some(0));
    assert!(
        held.renew_time > held.acquire_time,
        "it is renewed: {held:?}"
    );

    // The first does not renew any more, as if it had been killed.
    let second = second.await?;
    let held = lease(&client, &namespace).await?;
    assert_eq!(held.holder_identity.as_deref(), Some("second"));
    assert_eq!(held.lease_transitions, Some(1));

    // The first resumes, and learns that it is not the leader.
    let error = tokio::time::timeout(WAIT_TIMEOUT, first.keep()).await?;
    assert!(error.to_string().contains("keeping the lease"), "{error}");

    // A released lease is free at once, and only its holder can release it.
    first.release().await?;
    let held = lease(&client, &namespace).await?;
    assert_eq!(held.holder_identity.as_deref(), Some("second"));
    second.release().await?;
    let held = lease(&client, &namespace).await?;
    assert_eq!(held.holder_identity.as_deref(), Some(""));
    acquire(&client, &namespace, "third").await?;
    let held = lease(&client, &namespace).await?;
    assert_eq!(held.holder_identity.as_deref(), Some("third"));
    assert_eq!(held.lease_transitions, Some(2));
    Ok(())
}

#[tokio::test]
async fn leader_that_cannot_renew_stops_leading() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let namespace = cluster.namespace("leader").await?;
    let client = cluster.client();
    let mut leader = acquire(&client, &namespace, "leader").await?;

    // Another process takes the lease by force.
    let api: Api<Lease> = Api::namespaced(client.clone(), &namespace);
    let patch = Patch::Merge(json!({"spec": {"holderIdentity": "thief"}}));
    api.patch("leader", &PatchParams::default(), &patch).await?;
    let error = tokio::time::timeout(WAIT_TIMEOUT, leader.keep()).await?;
    assert!(error.to_string().contains("\"thief\" holds it"), "{error}");

    // A client without permissions.
    let unprivileged = cluster.client_as("unprivileged", &[])?;
    leader.api = Api::namespaced(unprivileged, &namespace);
    let error = tokio::time::timeout(WAIT_TIMEOUT, leader.keep()).await?;
    assert!(
        error.to_string().contains("could not be renewed"),
        "{error}"
    );
    Ok(())
}
