//! The import layer beside a running CDI: nothing is written, whatever happens to its objects.

use api::cdi::{DataImportCron, DataSource, DataVolume};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::Api;
use kube::api::{DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::core::{NamespaceResourceScope, Resource};
use serde_json::json;
use testkit::wait_until;

use crate::genuine::{hold, release, reported, scale};
use crate::library::image_at;
use crate::stage::{Stage, WAIT_TIMEOUT};

const CDI: &str = "cdi-deployment";
const LEASE: &str = "cdi-controller-leader-election-helper";
const CONDITION: &str = "ManagingImports";
const ASSISTS: (&str, &str) = ("False", "UpstreamOperatorRuns");
const MANAGES: (&str, &str) = ("True", "Managing");

/// Kind, name and resource version of all objects that the layer writes.
async fn versions(stage: &Stage) -> anyhow::Result<Vec<(String, String, String)>> {
    let mut found = Vec::new();
    list::<DataImportCron>(stage, &mut found).await?;
    list::<DataSource>(stage, &mut found).await?;
    list::<DataVolume>(stage, &mut found).await?;
    list::<PersistentVolumeClaim>(stage, &mut found).await?;
    list::<Pod>(stage, &mut found).await?;
    Ok(found)
}

async fn list<K>(stage: &Stage, found: &mut Vec<(String, String, String)>) -> anyhow::Result<()>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let resource = ApiResource::erase::<K>(&());
    let api: Api<DynamicObject> =
        Api::namespaced_with(stage.cluster.client(), crate::stage::NAMESPACE, &resource);
    for object in api.list(&ListParams::default()).await?.items {
        found.push((
            resource.kind.clone(),
            object.metadata.name.unwrap_or_default(),
            object.metadata.resource_version.unwrap_or_default(),
        ));
    }
    Ok(())
}

/// Number of finished reconciles of DataImportCrons: it grows when a change was seen, also if nothing follows.
fn reconciles(stage: &Stage) -> f64 {
    let metrics = stage.metrics();
    let lines = metrics.lines().filter(|line| {
        line.starts_with("medley_reconcile_total")
            && line.contains("controller=\"medley-images-cdi\"")
    });
    lines
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}

async fn until_seen(stage: &Stage, before: f64) -> anyhow::Result<()> {
    wait_until("the change was seen", WAIT_TIMEOUT, async || {
        Ok((reconciles(stage) > before).then_some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_while_cdi_runs() -> anyhow::Result<()> {
    let library = crate::library::Library::published("1")?;
    let server = library.serve().await?;
    let stage = Stage::new().await?;
    stage.trust(&[server.host()]).await?;
    scale(&stage.cluster, CDI, 1).await?;
    // Before the operator starts: at start-up nothing is written either.
    let url = image_at(&server.host(), "1");
    stage.cron("fedora", "arm64", &url).await?;
    let before = versions(&stage).await?;
    assert_eq!(before.len(), 1, "{before:?}");

    stage.operator().await?;
    let message = reported(&stage.cluster, CONDITION, ASSISTS).await?;
    assert_eq!(
        message,
        "CDI runs (Deployment genuine/cdi-deployment), so images-cdi writes nothing; \
         scale Deployment genuine/cdi-deployment to 0 to let images-cdi take over"
    );
    until_seen(&stage, 0.0).await?;
    assert_eq!(versions(&stage).await?, before);
    let seen = reconciles(&stage);
    stage.pointer("pointer", "fedora-arm64").await?;
    stage.cron("rhel", "amd64", &url).await?;
    until_seen(&stage, seen).await?;
    let after: Vec<_> = versions(&stage).await?;
    let names: Vec<&str> = after.iter().map(|(_, name, _)| name.as_str()).collect();
    let made = [
        "fedora-image-cron-arm64",
        "rhel-image-cron-amd64",
        "pointer",
    ];
    assert_eq!(names, made, "{after:?}");

    // Its Deployment wants no pods any more, but its Lease is held until it expires.
    hold(&stage.cluster, LEASE, 3600).await?;
    scale(&stage.cluster, CDI, 0).await?;
    let message = reported(&stage.cluster, CONDITION, ASSISTS).await?;
    assert!(message.contains("CDI runs ("), "{message}");
    assert_eq!(versions(&stage).await?, after);
    release(&stage.cluster, LEASE).await?;
    reported(&stage.cluster, CONDITION, MANAGES).await?;
    let digest = library.digest("arm64", 1);
    stage.imported("fedora", "arm64", &digest).await?;
    let digest = library.digest("amd64", 1);
    stage.imported("rhel", "amd64", &digest).await?;

    // CDI comes back.
    scale(&stage.cluster, CDI, 1).await?;
    reported(&stage.cluster, CONDITION, ASSISTS).await?;
    let settled = versions(&stage).await?;
    let seen = reconciles(&stage);
    stage.cron("debian", "amd64", &url).await?;
    until_seen(&stage, seen).await?;
    let mut after = versions(&stage).await?;
    after.retain(|(_, name, _)| name != "debian-image-cron-amd64");
    assert_eq!(after, settled);
    stage.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_that_expires_ends_the_assistance() -> anyhow::Result<()> {
    let (library, server, stage) = Stage::serving("1").await?;
    reported(&stage.cluster, CONDITION, MANAGES).await?;
    hold(&stage.cluster, LEASE, 3).await?;
    reported(&stage.cluster, CONDITION, ASSISTS).await?;
    let url = image_at(&server.host(), "1");
    stage.cron("fedora", "amd64", &url).await?;
    // Nothing changes in the cluster: time alone does it.
    reported(&stage.cluster, CONDITION, MANAGES).await?;
    stage
        .imported("fedora", "amd64", &library.digest("amd64", 1))
        .await?;
    stage.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_switches_the_layer_off() -> anyhow::Result<()> {
    let (library, server, stage) = Stage::serving("1").await?;
    let retry = json!({ "initialDelay": "1s", "maxDelay": "2s" });
    stage
        .policy(json!({ "mode": "Off", "retry": retry }))
        .await?;
    reported(&stage.cluster, CONDITION, ("False", "SetByPolicy")).await?;
    let seen = reconciles(&stage);
    let url = image_at(&server.host(), "1");
    stage.cron("fedora", "amd64", &url).await?;
    let before = versions(&stage).await?;
    until_seen(&stage, seen).await?;
    assert_eq!(versions(&stage).await?, before);
    stage.policy(json!({ "retry": retry })).await?;
    stage
        .imported("fedora", "amd64", &library.digest("amd64", 1))
        .await?;
    stage.stop().await;
    Ok(())
}
