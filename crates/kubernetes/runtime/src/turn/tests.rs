//! Who may write when.

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

use super::{NotOurTurn, Turn};

const HOUR: Duration = Duration::from_hours(1);

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap()
}

fn why<T>(answer: Result<T, kube::Error>) -> Option<NotOurTurn> {
    match answer {
        Err(kube::Error::Service(error)) => error.downcast_ref().copied(),
        _ => None,
    }
}

#[tokio::test]
async fn only_in_its_turn_a_process_writes() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let namespace = cluster.namespace("turn").await?;
    let turn = Turn::waiting();
    let fenced: Api<ConfigMap> = Api::namespaced(turn.fence(cluster.client()), &namespace);
    let post = PostParams::default();
    let refused = Some(NotOurTurn::NotSent);
    assert_eq!(why(fenced.create(&post, &map("a")).await), refused);
    // It reads all the same.
    let all = ListParams::default();
    let before = fenced.list(&all).await?.items.len();

    turn.lasts(Instant::now() + HOUR);
    fenced.create(&post, &map("a")).await?;
    assert_eq!(fenced.list(&all).await?.items.len(), before + 1);

    // Nobody has said that it is over, but it is.
    turn.lasts(Instant::now());
    let patch = Patch::Merge(json!({ "data": { "key": "value" } }));
    let patched = fenced.patch("a", &PatchParams::default(), &patch).await;
    assert_eq!(why(patched), refused);
    let deleted = fenced
        .delete("a", &kube::api::DeleteParams::default())
        .await;
    assert_eq!(why(deleted), refused);

    // It may come again, until it is over for good.
    turn.lasts(Instant::now() + HOUR);
    fenced.patch("a", &PatchParams::default(), &patch).await?;
    turn.end();
    turn.lasts(Instant::now() + HOUR);
    assert_eq!(why(fenced.create(&post, &map("b")).await), refused);
    Ok(())
}

#[tokio::test]
async fn a_write_without_an_answer_is_given_up_when_the_turn_ends() {
    let silent = service_fn(|_: Request<Body>| async {
        std::future::pending::<()>().await;
        Ok::<_, kube::Error>(Response::new(Body::empty()))
    });
    let turn = Turn::waiting();
    turn.lasts(Instant::now() + HOUR);
    let api: Api<ConfigMap> =
        Api::namespaced(turn.fence(Client::new(silent, "default")), "default");
    let writing =
        tokio::spawn(async move { why(api.create(&PostParams::default(), &map("a")).await) });
    // Renewed meanwhile, it goes on.
    tokio::task::yield_now().await;
    turn.lasts(Instant::now() + HOUR * 2);
    tokio::task::yield_now().await;
    assert!(!writing.is_finished(), "the turn was made longer");
    turn.lasts(Instant::now() + Duration::from_millis(20));
    assert_eq!(writing.await.unwrap(), Some(NotOurTurn::GivenUp));
}

#[tokio::test]
async fn who_is_alone_need_not_wait() {
    let turn = Turn::always();
    turn.begins().await;
    turn.lasts(Instant::now());
    assert!(turn.is_now());
    assert!(turn.ends().now_or_never().is_none(), "it never ends");
}
