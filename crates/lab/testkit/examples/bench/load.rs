//! Load on an API server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::future::try_join_all;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, Patch, PatchParams, PostParams, WatchParams};
use kube::{Api, Client};
use serde_json::json;

use crate::target::Target;

/// Events per watcher.
const EVENTS: usize = 100;
/// Clients that create the objects of a list.
const FILLERS: usize = 16;

fn map(name: &str, value: &str) -> anyhow::Result<ConfigMap> {
    serde_json::from_value(json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"app": "bench"}},
        "data": {"key": value, "text": "x".repeat(200)},
    }))
    .context("making a config map")
}

async fn namespace(target: &Target, name: &str) -> anyhow::Result<()> {
    let body = json!({"apiVersion": "v1", "kind": "Namespace"});
    let api: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(target.client().await?);
    let mut object = serde_json::from_value::<k8s_openapi::api::core::v1::Namespace>(body)?;
    object.metadata.name = Some(name.to_owned());
    api.create(&PostParams::default(), &object)
        .await
        .context("creating a namespace")?;
    Ok(())
}

/// Executions of `work` per second by independent clients.
async fn rate<F, Work>(
    target: &Target,
    clients: usize,
    span: Duration,
    work: F,
) -> anyhow::Result<f64>
where
    F: Fn(Client, usize, usize) -> Work + Clone,
    Work: Future<Output = anyhow::Result<()>>,
{
    let done = Arc::new(AtomicUsize::new(0));
    let connected = try_join_all((0..clients).map(|_| target.client())).await?;
    let started = Instant::now();
    try_join_all(connected.into_iter().enumerate().map(|(index, client)| {
        let (done, work) = (Arc::clone(&done), work.clone());
        async move {
            let mut round = 0;
            while started.elapsed() < span {
                work(client.clone(), index, round).await?;
                done.fetch_add(1, Ordering::Relaxed);
                round += 1;
            }
            anyhow::Ok(())
        }
    }))
    .await?;
    Ok(quotient(done.load(Ordering::Relaxed), started.elapsed()))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a benchmark does not count that far"
)]
fn quotient(count: usize, span: Duration) -> f64 {
    count as f64 / span.as_secs_f64()
}

/// Creates per second; an answer means that the object is on disk.
pub(crate) async fn creates(
    target: &Target,
    clients: usize,
    span: Duration,
) -> anyhow::Result<f64> {
    let name = format!("creates-{clients}");
    namespace(target, &name).await?;
    rate(target, clients, span, |client, index, round| {
        let api: Api<ConfigMap> = Api::namespaced(client, &name);
        async move {
            let object = map(&format!("c{index}-{round}"), "1")?;
            api.create(&PostParams::default(), &object)
                .await
                .context("creating")?;
            Ok(())
        }
    })
    .await
}

/// Server-side applies per second, each of which changes an object.
pub(crate) async fn applies(
    target: &Target,
    clients: usize,
    span: Duration,
) -> anyhow::Result<f64> {
    namespace(target, "applies").await?;
    rate(target, clients, span, |client, index, round| {
        let api: Api<ConfigMap> = Api::namespaced(client, "applies");
        async move {
            let name = format!("a{index}");
            let object = map(&name, &round.to_string())?;
            let params = PatchParams::apply("bench");
            api.patch(&name, &params, &Patch::Apply(&object))
                .await
                .context("applying")?;
            Ok(())
        }
    })
    .await
}

/// Creates a namespace with this number of objects, named `l000000` and so on.
pub(crate) async fn fill(target: &Target, name: &str, objects: usize) -> anyhow::Result<()> {
    namespace(target, name).await?;
    let clients = try_join_all((0..FILLERS).map(|_| target.client())).await?;
    try_join_all(
        clients
            .into_iter()
            .enumerate()
            .map(|(first, client)| async move {
                let api: Api<ConfigMap> = Api::namespaced(client, name);
                for index in (first..objects).step_by(FILLERS) {
                    api.create(&PostParams::default(), &map(&format!("l{index:06}"), "1")?)
                        .await?;
                }
                anyhow::Ok(())
            }),
    )
    .await?;
    Ok(())
}

/// Duration of one full list, the median of five.
pub(crate) async fn list(target: &Target, objects: usize) -> anyhow::Result<Duration> {
    let client = target.client().await?;
    let mut times = Vec::new();
    for _ in 0..5 {
        let started = Instant::now();
        let request = http::Request::get("/api/v1/namespaces/list/configmaps").body(Vec::new())?;
        let text = client.request_text(request).await.context("listing")?;
        times.push(started.elapsed());
        let found = text.matches("\"uid\":").count();
        anyhow::ensure!(
            found == objects,
            "the list has {found} objects, not {objects}"
        );
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

/// Events per second delivered to all watchers of a namespace.
pub(crate) async fn fan_out(target: &Target, watchers: usize) -> anyhow::Result<f64> {
    namespace(target, "watch").await?;
    let client = target.client().await?;
    let api: Api<ConfigMap> = Api::namespaced(client, "watch");
    let from = api
        .list(&ListParams::default())
        .await?
        .metadata
        .resource_version
        .unwrap_or_default();
    let mut streams = Vec::new();
    for _ in 0..watchers {
        streams.push(
            api.watch(&WatchParams::default(), &from)
                .await
                .context("watching")?
                .boxed(),
        );
    }
    let started = Instant::now();
    let readers = try_join_all(streams.into_iter().map(|mut stream| async move {
        for _ in 0..EVENTS {
            stream
                .try_next()
                .await
                .context("reading a watch")?
                .context("a watch ended")?;
        }
        anyhow::Ok(())
    }));
    let writer = async {
        for index in 0..EVENTS {
            api.create(&PostParams::default(), &map(&format!("w{index}"), "1")?)
                .await?;
        }
        anyhow::Ok(())
    };
    futures::future::try_join(readers, writer).await?;
    Ok(quotient(watchers * EVENTS, started.elapsed()))
}
