use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::world::{World, names, template};

fn set(replicas: i32, image: &str) -> Value {
    json!({
        "metadata": { "name": "web" },
        "spec": {
            "replicas": replicas,
            "serviceName": "web",
            "selector": { "matchLabels": { "app": "web" } },
            "template": template(&json!({ "app": "web" }), image, "Always"),
            "volumeClaimTemplates": [{
                "metadata": { "name": "data" },
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": { "requests": { "storage": "1Gi" } },
                },
            }],
        },
    })
}

fn image(image: &str) -> Value {
    json!({ "spec": { "template": { "spec": { "containers": [{ "name": "main", "image": image }] } } } })
}

fn rolled_out(replicas: i32) -> impl Fn(&Value) -> bool {
    move |set| {
        let status = &set["status"];
        status["observedGeneration"] == set["metadata"]["generation"]
            && status["updatedReplicas"] == replicas
            && status["readyReplicas"] == replicas
            && status["availableReplicas"] == replicas
            && status["currentRevision"] == status["updateRevision"]
    }
}

#[tokio::test]
async fn pods_come_in_order_with_names_and_claims() -> anyhow::Result<()> {
    let world = World::start().await?;
    world.create::<StatefulSet>(set(2, "one")).await?;
    world
        .until::<StatefulSet>("web", "the first pod", |set| set["status"]["replicas"] == 1)
        .await?;
    let first = world
        .until_pods("web-0", |pods| names(pods) == ["web-0"])
        .await?;
    let labels = first[0].metadata.labels.clone().unwrap_or_default();
    assert_eq!(labels["statefulset.kubernetes.io/pod-name"], "web-0");
    assert_eq!(labels["apps.kubernetes.io/pod-index"], "0");

    world.report("web-0", "Running").await?;
    world
        .until_pods("web-1", |pods| names(pods) == ["web-0", "web-1"])
        .await?;
    world.report("web-1", "Running").await?;
    let ready = world
        .until::<StatefulSet>("web", "both are ready", rolled_out(2))
        .await?;
    assert_eq!(ready["status"]["currentReplicas"], 2);
    assert_eq!(ready["status"]["collisionCount"], 0);

    let claims: Api<PersistentVolumeClaim> = world.api();
    let claims = claims.list(&ListParams::default()).await?;
    let claims: Vec<_> = claims
        .iter()
        .filter_map(|claim| claim.metadata.name.clone())
        .collect();
    assert_eq!(claims, ["data-web-0", "data-web-1"]);
    assert_eq!(
        world
            .until_event("web", "SuccessfulCreate")
            .await?
            .split(' ')
            .next(),
        Some("Create")
    );
    Ok(())
}

#[tokio::test]
async fn a_rollout_goes_down_and_an_undo_goes_back() -> anyhow::Result<()> {
    let mut world = World::start().await?;
    world.run_pods();
    world.create::<StatefulSet>(set(3, "one")).await?;
    let first = world
        .until::<StatefulSet>("web", "three pods", rolled_out(3))
        .await?;
    let sets: Api<StatefulSet> = world.api();
    let strategic = |patch: Value| {
        let sets = sets.clone();
        async move {
            sets.patch("web", &PatchParams::default(), &Patch::Strategic(&patch))
                .await
        }
    };
    strategic(image("two")).await?;
    // The controllers are ended in the middle of it, and begin anew.
    world.crash();
    world.resume().await?;
    let second = world
        .until::<StatefulSet>("web", "the update", rolled_out(3))
        .await?;
    assert_ne!(
        first["status"]["currentRevision"],
        second["status"]["currentRevision"]
    );
    let pods = world.pods().await?;
    assert_eq!(names(&pods), ["web-0", "web-1", "web-2"]);

    // As `kubectl rollout undo` does: the patch that the older revision holds.
    let revisions: Api<ControllerRevision> = world.api();
    let older = first["status"]["currentRevision"]
        .as_str()
        .unwrap_or_default();
    let older_data = revisions.get(older).await?.data.unwrap_or_default().0;
    strategic(older_data).await?;
    let third = world
        .until::<StatefulSet>("web", "the rollback", |set| {
            rolled_out(3)(set) && set["status"]["currentRevision"] == older
        })
        .await?;
    assert_eq!(
        third["spec"]["template"]["spec"]["containers"][0]["image"],
        "one"
    );
    let numbers: Vec<_> = revisions.list(&ListParams::default()).await?.items;
    let mut numbers: Vec<_> = numbers.iter().map(|revision| revision.revision).collect();
    numbers.sort_unstable();
    assert_eq!(
        numbers,
        [2, 3],
        "the rollback is the newest, and nothing is doubled"
    );
    Ok(())
}

#[tokio::test]
async fn scaling_down_takes_the_highest_and_keeps_or_hands_over_claims() -> anyhow::Result<()> {
    let mut world = World::start().await?;
    world.run_pods();
    let mut parallel = set(3, "one");
    parallel["spec"]["podManagementPolicy"] = json!("Parallel");
    parallel["spec"]["persistentVolumeClaimRetentionPolicy"] =
        json!({ "whenDeleted": "Delete", "whenScaled": "Retain" });
    let created = world.create::<StatefulSet>(parallel).await?;
    world
        .until::<StatefulSet>("web", "three pods", rolled_out(3))
        .await?;
    let claim = world
        .until::<PersistentVolumeClaim>("data-web-2", "an owner", |claim| {
            claim["metadata"]["ownerReferences"].is_array()
        })
        .await?;
    assert_eq!(
        claim["metadata"]["ownerReferences"][0]["uid"].as_str(),
        created.metadata.uid.as_deref()
    );
    world
        .patch::<StatefulSet>("web", json!({ "spec": { "replicas": 1 } }))
        .await?;
    world
        .until_pods("only web-0", |pods| names(pods) == ["web-0"])
        .await?;
    world
        .until::<StatefulSet>("web", "one pod", |set| set["status"]["replicas"] == 1)
        .await?;
    let claims: Api<PersistentVolumeClaim> = world.api();
    assert_eq!(claims.list(&ListParams::default()).await?.items.len(), 3);
    Ok(())
}
