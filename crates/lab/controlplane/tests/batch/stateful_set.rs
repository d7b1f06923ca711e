//! StatefulSets on a cluster.

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
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

fn updated(set: &Value) -> (Option<i64>, Option<i64>) {
    let status = &set["status"];
    (
        status["updatedReplicas"].as_i64(),
        status["currentReplicas"].as_i64(),
    )
}

#[tokio::test]
async fn an_update_stops_at_the_partition() -> anyhow::Result<()> {
    let mut world = World::start().await?;
    world.run_pods();
    let mut object = set(3, "one");
    object["spec"]["ordinals"] = json!({ "start": 5 });
    object["spec"]["updateStrategy"] =
        json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": 2 } });
    world.create::<StatefulSet>(object).await?;
    world
        .until::<StatefulSet>("web", "three pods", rolled_out(3))
        .await?;
    let sets: Api<StatefulSet> = world.api();
    let change = Patch::Strategic(image("two"));
    sets.patch("web", &PatchParams::default(), &change).await?;
    world
        .until::<StatefulSet>("web", "one is updated", |set| {
            updated(set) == (Some(1), Some(2)) && set["status"]["readyReplicas"] == 3
        })
        .await?;
    let images = async || -> anyhow::Result<Vec<(String, String)>> {
        let pods = world.pods().await?;
        let image = |pod: &Pod| pod.spec.as_ref()?.containers.first()?.image.clone();
        Ok(pods
            .iter()
            .map(|pod| (pod.name_any(), image(pod).unwrap_or_default()))
            .collect())
    };
    let pair = |name: &str, image: &str| (name.to_owned(), image.to_owned());
    assert_eq!(
        images().await?,
        [
            pair("web-5", "one"),
            pair("web-6", "one"),
            pair("web-7", "two")
        ]
    );
    // One below the partition comes back as it was.
    world.delete::<Pod>("web-5").await?;
    world
        .until::<StatefulSet>("web", "it is back", |set| {
            updated(set) == (Some(1), Some(2)) && set["status"]["readyReplicas"] == 3
        })
        .await?;
    world
        .until_pods("three pods", |pods| pods.len() == 3)
        .await?;
    assert_eq!(images().await?[0], pair("web-5", "one"));
    Ok(())
}

#[tokio::test]
async fn who_updates_by_hand_deletes_by_hand() -> anyhow::Result<()> {
    let mut world = World::start().await?;
    world.run_pods();
    let mut object = set(2, "one");
    object["spec"]["updateStrategy"] = json!({ "type": "OnDelete" });
    world.create::<StatefulSet>(object).await?;
    world
        .until::<StatefulSet>("web", "two pods", |set| set["status"]["readyReplicas"] == 2)
        .await?;
    let sets: Api<StatefulSet> = world.api();
    let change = Patch::Strategic(image("two"));
    sets.patch("web", &PatchParams::default(), &change).await?;
    let seen = world
        .until::<StatefulSet>("web", "it has been seen", |set| {
            set["status"]["observedGeneration"] == set["metadata"]["generation"]
        })
        .await?;
    assert_eq!(updated(&seen), (None, Some(2)));
    world.delete::<Pod>("web-1").await?;
    let half = world
        .until::<StatefulSet>("web", "one is updated", |set| {
            updated(set).0 == Some(1) && set["status"]["readyReplicas"] == 2
        })
        .await?;
    assert_eq!(updated(&half), (Some(1), Some(1)));
    Ok(())
}
