//! The objects that controllers write.

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt as _;
use kube::api::ListParams;
use serde::Serialize;
use serde_json::{Value, json};

use super::fixture::{Fixture, template};

/// An object without the fields that differ between runs.
fn plain<K: Serialize>(object: &K) -> anyhow::Result<Value> {
    let mut object = serde_json::to_value(object)?;
    for volatile in [
        "creationTimestamp",
        "managedFields",
        "namespace",
        "resourceVersion",
        "uid",
    ] {
        object["metadata"]
            .as_object_mut()
            .map(|meta| meta.remove(volatile));
    }
    let conditions = object.pointer_mut("/status/conditions");
    for condition in conditions
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        for volatile in ["lastProbeTime", "lastTransitionTime"] {
            condition
                .as_object_mut()
                .map(|fields| fields.remove(volatile));
        }
    }
    for volatile in ["startTime", "completionTime"] {
        object["status"]
            .as_object_mut()
            .map(|status| status.remove(volatile));
    }
    Ok(object)
}

fn owner(api_version: &str, kind: &str, name: &str, uid: Option<&String>) -> Value {
    json!([{
        "apiVersion": api_version, "kind": kind, "name": name, "uid": uid,
        "controller": true, "blockOwnerDeletion": true,
    }])
}

#[tokio::test]
async fn stateful_sets_their_pods_claims_and_revisions() -> anyhow::Result<()> {
    let mut fixture = Fixture::start().await?;
    fixture.run_pods();
    let set = fixture
        .create::<StatefulSet>(json!({
            "metadata": { "name": "db", "annotations": { "team": "shop" } },
            "spec": {
                "replicas": 1,
                "serviceName": "db",
                "selector": { "matchLabels": { "app": "db" } },
                "template": template(&json!({ "app": "db", "tier": "x" }), "example.com/db:1", "Always"),
                "persistentVolumeClaimRetentionPolicy": {
                    "whenDeleted": "Delete", "whenScaled": "Delete",
                },
                "volumeClaimTemplates": [{
                    "metadata": { "name": "data", "labels": { "kind": "disk" } },
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "resources": { "requests": { "storage": "1Gi" } },
                    },
                }],
            },
        }))
        .await?;
    let done = fixture
        .until::<StatefulSet>("db", "it runs", |set| {
            set["status"]["availableReplicas"] == 1 && set["status"]["currentReplicas"] == 1
        })
        .await?;
    let revision = done["status"]["updateRevision"]
        .as_str()
        .unwrap_or_default();
    assert_eq!(
        done["status"],
        json!({
            "observedGeneration": 1, "replicas": 1, "readyReplicas": 1, "availableReplicas": 1,
            "currentReplicas": 1, "updatedReplicas": 1, "collisionCount": 0,
            "currentRevision": revision, "updateRevision": revision,
        })
    );
    let uid = set.metadata.uid.as_ref();
    let pod = fixture.api::<Pod>().get("db-0").await?;
    let shown = plain(&pod)?;
    assert_eq!(
        shown["metadata"],
        json!({
            "name": "db-0", "generateName": "db-", "generation": 1,
            "labels": {
                "app": "db", "tier": "x", "controller-revision-hash": revision,
                "statefulset.kubernetes.io/pod-name": "db-0", "apps.kubernetes.io/pod-index": "0",
            },
            "ownerReferences": owner("apps/v1", "StatefulSet", "db", uid),
        })
    );
    assert_eq!(shown["spec"]["hostname"], "db-0");
    assert_eq!(shown["spec"]["subdomain"], "db");

    let claim = fixture
        .until::<PersistentVolumeClaim>("data-db-0", "its owner", |claim| {
            claim["metadata"]["ownerReferences"].is_array()
        })
        .await?;
    assert_eq!(
        plain(&claim)?["metadata"],
        json!({
            "name": "data-db-0", "labels": { "app": "db", "kind": "disk" },
            "finalizers": ["kubernetes.io/pvc-protection"],
            "ownerReferences": owner("apps/v1", "StatefulSet", "db", uid),
        })
    );

    let revisions = fixture
        .api::<ControllerRevision>()
        .list(&ListParams::default())
        .await?;
    let shown = plain(&revisions.items[0])?;
    let hash = revision.trim_start_matches("db-");
    assert_eq!(
        shown["metadata"],
        json!({
            "name": revision, "annotations": { "team": "shop" },
            "labels": { "app": "db", "tier": "x", "controller.kubernetes.io/hash": hash },
            "ownerReferences": owner("apps/v1", "StatefulSet", "db", uid),
        })
    );
    assert_eq!(shown["revision"], 1);
    assert_eq!(shown["data"]["spec"]["template"]["$patch"], "replace");
    assert_eq!(
        shown["data"]["spec"]["template"]["spec"]["containers"][0]["image"],
        "example.com/db:1"
    );
    Ok(())
}

#[tokio::test]
async fn jobs_and_their_pods() -> anyhow::Result<()> {
    let fixture = Fixture::start().await?;
    let job = fixture
        .create::<Job>(json!({
            "metadata": { "name": "work" },
            "spec": {
                "completionMode": "Indexed", "completions": 1, "backoffLimitPerIndex": 1,
                "template": template(&json!({ "app": "x" }), "x", "Never"),
            },
        }))
        .await?;
    let uid = job.metadata.uid.clone().unwrap_or_default();
    let pods = fixture.until_pods("a pod", |pods| pods.len() == 1).await?;
    let shown = plain(&pods[0])?;
    let index = "batch.kubernetes.io/job-completion-index";
    assert_eq!(
        shown["metadata"],
        json!({
            "name": pods[0].name_any(), "generateName": "work-0-", "generation": 1,
            "annotations": { index: "0", "batch.kubernetes.io/job-index-failure-count": "0" },
            "finalizers": ["batch.kubernetes.io/job-tracking"],
            "labels": {
                "app": "x", index: "0",
                "batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": "work",
                "controller-uid": uid, "job-name": "work",
            },
            "ownerReferences": owner("batch/v1", "Job", "work", Some(&uid)),
        })
    );
    assert_eq!(shown["spec"]["hostname"], "work-0");
    assert_eq!(
        shown["spec"]["containers"][0]["env"],
        json!([{ "name": "JOB_COMPLETION_INDEX", "valueFrom": { "fieldRef": {
            "apiVersion": "v1", "fieldPath": format!("metadata.labels['{index}']"),
        } } }])
    );
    let running = fixture
        .until::<Job>("work", "it runs", |job| job["status"]["active"] == 1)
        .await?;
    assert_eq!(
        plain(&running)?["status"],
        json!({
            "active": 1, "ready": 0, "terminating": 0, "uncountedTerminatedPods": {},
            "failedIndexes": "",
        })
    );
    fixture.report(&pods[0].name_any(), "Succeeded").await?;
    let done = fixture
        .until::<Job>("work", "it is done", |job| {
            job["status"]["completionTime"].is_string()
        })
        .await?;
    let condition = |type_: &str| {
        json!({
            "type": type_, "status": "True", "reason": "CompletionsReached",
            "message": "Reached expected number of succeeded pods",
        })
    };
    assert_eq!(
        plain(&done)?["status"],
        json!({
            "succeeded": 1, "ready": 0, "terminating": 0, "uncountedTerminatedPods": {},
            "completedIndexes": "0", "failedIndexes": "",
            "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
        })
    );
    Ok(())
}
