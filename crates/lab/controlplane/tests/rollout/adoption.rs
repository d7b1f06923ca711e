//! Adoption and release of pods.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use serde_json::json;

use super::stage::{Stage, WAIT_TIMEOUT, deployment, template};

#[tokio::test]
async fn adopts_matching_pods_and_releases_others() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let mut orphan = template("web", "example.com/web:1");
    orphan["metadata"]["name"] = json!("orphan");
    stage.create::<Pod>(orphan).await?;
    let set: ReplicaSet = stage.create(deployment("web", 2)).await?;
    stage.until_pods(2).await?;
    let adopted = stage
        .until("the orphan is taken in", "orphan", |pod: &Pod| {
            !pod.owner_references().is_empty()
        })
        .await?;
    let owner = &adopted.owner_references()[0];
    assert_eq!(Some(&owner.uid), set.metadata.uid.as_ref());
    assert_eq!(
        (owner.controller, owner.block_owner_deletion),
        (Some(true), Some(true))
    );

    stage
        .patch::<Pod>(
            "orphan",
            json!({ "metadata": { "labels": { "app": "other" } } }),
        )
        .await?;
    stage
        .until("the pod is let go", "orphan", |pod: &Pod| {
            pod.owner_references().is_empty()
        })
        .await?;
    // Another pod replaces it.
    stage.until_pods(3).await?;
    stage
        .until("the set has two again", "web", |it: &ReplicaSet| {
            it.status
                .as_ref()
                .is_some_and(|status| status.replicas == 2)
        })
        .await?;
    Ok(())
}

#[tokio::test]
async fn foreign_pods_are_left_alone() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let mut foreign = template("web", "example.com/web:1");
    foreign["metadata"]["name"] = json!("foreign");
    foreign["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "example.com/v1", "kind": "Other", "name": "o", "uid": "u", "controller": true,
    }]);
    stage.create::<Pod>(foreign).await?;
    stage.create::<ReplicaSet>(deployment("web", 1)).await?;
    let pods = stage.until_pods(2).await?;
    let foreign = pods.iter().find(|pod| pod.name_any() == "foreign").unwrap();
    assert_eq!(foreign.owner_references()[0].uid, "u");
    Ok(())
}

#[tokio::test]
async fn deployment_adopts_orphaned_sets() -> anyhow::Result<()> {
    let mut stage = Stage::start().await?;
    stage.keep_running();
    stage.create::<Deployment>(deployment("web", 2)).await?;
    stage.rolled_out("web").await?;
    let before = stage.sets().await?[0].clone();
    let orphan = DeleteParams::orphan();
    stage.api::<Deployment>().delete("web", &orphan).await?;
    // The garbage collector of a control plane does these two; none runs here.
    let free = json!({ "metadata": { "ownerReferences": null } });
    stage.patch::<ReplicaSet>(&before.name_any(), free).await?;
    stage
        .patch::<Deployment>("web", json!({ "metadata": { "finalizers": null } }))
        .await?;
    testkit::wait_until("the deployment is gone", WAIT_TIMEOUT, || async {
        let there = stage.api::<Deployment>().get_opt("web").await?;
        Ok(there.is_none().then_some(()))
    })
    .await?;
    stage.create::<Deployment>(deployment("web", 2)).await?;
    stage.rolled_out("web").await?;
    let after = stage.sets().await?;
    assert_eq!(after.len(), 1);
    assert_eq!(after[0].metadata.uid, before.metadata.uid);
    Ok(())
}
