//! The write fence under changing leadership.

use std::time::Duration;

use futures::FutureExt as _;
use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Api, Client};
use serde_json::json;
use testkit::TestCluster;
use tokio::time::Instant;
use tower::service_fn;

use super::{FenceError, WriteFence};

const HOUR: Duration = Duration::from_hours(1);

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap()
}

fn fence_error<T>(answer: Result<T, kube::Error>) -> Option<FenceError> {
    match answer {
        Err(kube::Error::Service(error)) => error.downcast_ref().copied(),
        _ => None,
    }
}

#[tokio::test]
async fn only_the_leader_writes() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let namespace = cluster.namespace("fence").await?;
    let fence = WriteFence::follower();
    let fenced: Api<ConfigMap> = Api::namespaced(fence.fence(cluster.client()), &namespace);
    let post = PostParams::default();
    let refused = Some(FenceError::NotLeader);
    assert_eq!(fence_error(fenced.create(&post, &map("a")).await), refused);
    // Followers read.
    let all = ListParams::default();
    let before = fenced.list(&all).await?.items.len();

    fence.renew_until(Instant::now() + HOUR);
    fenced.create(&post, &map("a")).await?;
    assert_eq!(fenced.list(&all).await?.items.len(), before + 1);

    // The lease expired without a call of `end`.
    fence.renew_until(Instant::now());
    let patch = Patch::Merge(json!({ "data": { "key": "value" } }));
    let patched = fenced.patch("a", &PatchParams::default(), &patch).await;
    assert_eq!(fence_error(patched), refused);
    let deleted = fenced
        .delete("a", &kube::api::DeleteParams::default())
        .await;
    assert_eq!(fence_error(deleted), refused);

    // A process may lead again, until it resigns.
    fence.renew_until(Instant::now() + HOUR);
    fenced.patch("a", &PatchParams::default(), &patch).await?;
    fence.resign();
    fence.renew_until(Instant::now() + HOUR);
    assert_eq!(fence_error(fenced.create(&post, &map("b")).await), refused);
    Ok(())
}

#[tokio::test]
async fn write_in_flight_is_abandoned_when_the_lease_expires() {
    let silent = service_fn(|_: Request<Body>| async {
        std::future::pending::<()>().await;
        Ok::<_, kube::Error>(Response::new(Body::empty()))
    });
    let fence = WriteFence::follower();
    fence.renew_until(Instant::now() + HOUR);
    let api: Api<ConfigMap> =
        Api::namespaced(fence.fence(Client::new(silent, "default")), "default");
    let writing =
        tokio::spawn(
            async move { fence_error(api.create(&PostParams::default(), &map("a")).await) },
        );
    // A renewal in the meantime keeps the request alive.
    tokio::task::yield_now().await;
    fence.renew_until(Instant::now() + HOUR * 2);
    tokio::task::yield_now().await;
    assert!(!writing.is_finished(), "the lease was renewed");
    fence.renew_until(Instant::now() + Duration::from_millis(20));
    assert_eq!(writing.await.unwrap(), Some(FenceError::LeaseExpired));
}

#[tokio::test]
async fn process_without_election_always_leads() {
    let fence = WriteFence::unelected();
    fence.wait_for_leadership().await;
    fence.renew_until(Instant::now());
    assert!(fence.is_leader());
    assert!(
        fence.wait_for_loss().now_or_never().is_none(),
        "it never ends"
    );
}
