//! StatefulSets on a cluster.

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::fixture::{Fixture, names, template};

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
async fn pods_are_created_in_order_with_names_and_claims() -> anyhow::Result<()> {
    let fixture = Fixture::start().await?;
    fixture.create::<StatefulSet>(set(2, "one")).await?;
    fixture
        .until::<StatefulSet>("web", "the first pod", |set| set["status"]["replicas"] == 1)
        .await?;
    let first = fixture
        .until_pods("web-0", |pods| names(pods) == ["web-0"])
        .await?;
    let labels = first[0].metadata.labels.clone().unwrap_or_default();
    assert_eq!(labels["statefulset.kubernetes.io/pod-name"], "web-0");
    assert_eq!(labels["apps.kubernetes.io/pod-index"], "0");

    fixture.report("web-0", "Running").await?;
    fixture
        .until_pods("web-1", |pods| names(pods) == ["web-0", "web-1"])
        .await?;
    fixture.report("web-1", "Running").await?;
    let ready = fixture
        .until::<StatefulSet>("web", "both are ready", rolled_out(2))
        .await?;
    assert_eq!(ready["status"]["currentReplicas"], 2);
    assert_eq!(ready["status"]["collisionCount"], 0);

    let claims: Api<PersistentVolumeClaim> = fixture.api();
    let claims = claims.list(&ListParams::default()).await?;
    let claims: Vec<_> = claims
        .iter()
        .filter_map(|claim| claim.metadata.name.clone())
        .collect();
    assert_eq!(claims, ["data-web-0", "data-web-1"]);
    assert_eq!(
        fixture
            .until_event("web", "SuccessfulCreate")
            .await?
            .split(' ')
            .next(),
        Some("Create")
    );
    Ok(())
}

#[tokio::test]
async fn rollout_proceeds_downwards_and_can_be_undone() -> anyhow::Result<()> {
    let mut fixture = Fixture::start().await?;
    fixture.run_pods();
    fixture.create::<StatefulSet>(set(3, "one")).await?;
    let first = fixture
        .until::<StatefulSet>("web", "three pods", rolled_out(3))
        .await?;
    let sets: Api<StatefulSet> = fixture.api();
    let strategic = |patch: Value| {
        let sets = sets.clone();
        async move {
            sets.patch("web", &PatchParams::default(), &Patch::Strategic(&patch))
                .await
        }
    };
    strategic(image("two")).await?;
    // The controllers are killed in the middle of it, and restarted.
    fixture.crash();
    fixture.resume().await?;
    let second = fixture
        .until::<StatefulSet>("web", "the update", rolled_out(3))
        .await?;
    assert_ne!(
        first["status"]["currentRevision"],
        second["status"]["currentRevision"]
    );
    let pods = fixture.pods().await?;
    assert_eq!(names(&pods), ["web-0", "web-1", "web-2"]);

    // As `kubectl rollout undo` does: apply the patch in the older revision.
    let revisions: Api<ControllerRevision> = fixture.api();
    let older = first["status"]["currentRevision"]
        .as_str()
        .unwrap_or_default();
    let older_data = revisions.get(older).await?.data.unwrap_or_default().0;
    strategic(older_data).await?;
    let third = fixture
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
async fn scale_down_removes_the_highest_and_applies_claim_retention() -> anyhow::Result<()> {
    let mut fixture = Fixture::start().await?;
    fixture.run_pods();
    let mut parallel = set(3, "one");
    parallel["spec"]["podManagementPolicy"] = json!("Parallel");
    parallel["spec"]["persistentVolumeClaimRetentionPolicy"] =
        json!({ "whenDeleted": "Delete", "whenScaled": "Retain" });
    let created = fixture.create::<StatefulSet>(parallel).await?;
    fixture
        .until::<StatefulSet>("web", "three pods", rolled_out(3))
        .await?;
    let claim = fixture
        .until::<PersistentVolumeClaim>("data-web-2", "an owner", |claim| {
            claim["metadata"]["ownerReferences"].is_array()
        })
        .await?;
    assert_eq!(
        claim["metadata"]["ownerReferences"][0]["uid"].as_str(),
        created.metadata.uid.as_deref()
    );
    fixture
        .patch::<StatefulSet>("web", json!({ "spec": { "replicas": 1 } }))
        .await?;
    fixture
        .until_pods("only web-0", |pods| names(pods) == ["web-0"])
        .await?;
    fixture
        .until::<StatefulSet>("web", "one pod", |set| set["status"]["replicas"] == 1)
        .await?;
    let claims: Api<PersistentVolumeClaim> = fixture.api();
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
async fn update_stops_at_the_partition() -> anyhow::Result<()> {
    let mut fixture = Fixture::start().await?;
    fixture.run_pods();
    let mut object = set(3, "one");
    object["spec"]["ordinals"] = json!({ "start": 5 });
    object["spec"]["updateStrategy"] =
        json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": 2 } });
    fixture.create::<StatefulSet>(object).await?;
    fixture
        .until::<StatefulSet>("web", "three pods", rolled_out(3))
        .await?;
    let sets: Api<StatefulSet> = fixture.api();
    let change = Patch::Strategic(image("two"));
    sets.patch("web", &PatchParams::default(), &change).await?;
    fixture
        .until::<StatefulSet>("web", "one is updated", |set| {
            updated(set) == (Some(1), Some(2)) && set["status"]["readyReplicas"] == 3
        })
        .await?;
    let images = async || -> anyhow::Result<Vec<(String, String)>> {
        let pods = fixture.pods().await?;
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
    // A pod below the partition is recreated from the current revision.
    fixture.delete::<Pod>("web-5").await?;
    fixture
        .until::<StatefulSet>("web", "it is back", |set| {
            updated(set) == (Some(1), Some(2)) && set["status"]["readyReplicas"] == 3
        })
        .await?;
    fixture
        .until_pods("three pods", |pods| pods.len() == 3)
        .await?;
    assert_eq!(images().await?[0], pair("web-5", "one"));
    Ok(())
}

#[tokio::test]
async fn on_delete_updates_only_deleted_pods() -> anyhow::Result<()> {
    let mut fixture = Fixture::start().await?;
    fixture.run_pods();
    let mut object = set(2, "one");
    object["spec"]["updateStrategy"] = json!({ "type": "OnDelete" });
    fixture.create::<StatefulSet>(object).await?;
    fixture
        .until::<StatefulSet>("web", "two pods", |set| set["status"]["readyReplicas"] == 2)
        .await?;
    let sets: Api<StatefulSet> = fixture.api();
    let change = Patch::Strategic(image("two"));
    sets.patch("web", &PatchParams::default(), &change).await?;
    let seen = fixture
        .until::<StatefulSet>("web", "it has been seen", |set| {
            set["status"]["observedGeneration"] == set["metadata"]["generation"]
        })
        .await?;
    assert_eq!(updated(&seen), (None, Some(2)));
    fixture.delete::<Pod>("web-1").await?;
    let half = fixture
        .until::<StatefulSet>("web", "one is updated", |set| {
            updated(set).0 == Some(1) && set["status"]["readyReplicas"] == 2
        })
        .await?;
    assert_eq!(updated(&half), (Some(1), Some(1)));
    Ok(())
}
