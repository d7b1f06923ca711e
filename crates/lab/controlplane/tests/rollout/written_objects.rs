//! The objects that controllers write.

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment};
use kube::ResourceExt as _;
use kube::api::ListParams;
use serde::Serialize;
use serde_json::{Value, json};

use super::daemon_sets::{add_node, daemon_set, rolled_out};
use super::stage::{Stage, deployment};

/// An object without the fields that differ between runs.
fn plain<K: Serialize>(object: &K) -> anyhow::Result<Value> {
    let mut object = serde_json::to_value(object)?;
    if let Some(meta) = object["metadata"].as_object_mut() {
        for volatile in [
            "creationTimestamp",
            "managedFields",
            "name",
            "namespace",
            "resourceVersion",
            "uid",
        ] {
            meta.remove(volatile);
        }
    }
    let conditions = object.pointer_mut("/status/conditions");
    let conditions = conditions.and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        if let Some(condition) = condition.as_object_mut() {
            condition.retain(|key, _| !key.starts_with("last"));
        }
    }
    Ok(object)
}

#[tokio::test]
async fn deployments_sets_and_pods() -> anyhow::Result<()> {
    let mut stage = Stage::start().await?;
    stage.keep_running();
    let mut object = deployment("web", 4);
    object["metadata"]["annotations"] = json!({ "team": "shop" });
    object["spec"]["template"]["metadata"]["annotations"] = json!({ "note": "x" });
    stage.create::<Deployment>(object).await?;
    stage.rolled_out("web").await?;
    let done = stage
        .until("the rollout is over", "web", |it: &Deployment| {
            let status = it
                .status
                .as_ref()
                .and_then(|status| status.conditions.as_ref());
            status.is_some_and(|conditions| {
                conditions
                    .iter()
                    .any(|it| it.reason.as_deref() == Some("NewReplicaSetAvailable"))
            })
        })
        .await?;
    let set = stage.sets().await?[0].clone();
    let name = set.name_any();
    let hash = set.labels()["pod-template-hash"].clone();
    let done = plain(&done)?;
    assert_eq!(
        done["metadata"],
        json!({
            "annotations": { "team": "shop", "deployment.kubernetes.io/revision": "1" },
            "generation": 1,
        })
    );
    assert_eq!(
        done["status"],
        json!({
            "observedGeneration": 1,
            "replicas": 4,
            "updatedReplicas": 4,
            "readyReplicas": 4,
            "availableReplicas": 4,
            "terminatingReplicas": 0,
            "conditions": [
                {
                    "type": "Available", "status": "True", "reason": "MinimumReplicasAvailable",
                    "message": "Deployment has minimum availability.",
                },
                {
                    "type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable",
                    "message": format!("ReplicaSet \"{name}\" has successfully progressed."),
                },
            ],
        })
    );
    let owner = |kind: &str, name: &str, uid: Option<&String>| {
        json!([{
            "apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid,
            "controller": true, "blockOwnerDeletion": true,
        }])
    };
    let deployment = stage.api::<Deployment>().get("web").await?;
    let shown = plain(&set)?;
    assert_eq!(
        shown["metadata"],
        json!({
            "annotations": {
                "team": "shop",
                "deployment.kubernetes.io/revision": "1",
                "deployment.kubernetes.io/desired-replicas": "4",
                "deployment.kubernetes.io/max-replicas": "5",
            },
            "generation": 1,
            "labels": { "app": "web", "pod-template-hash": hash },
            "ownerReferences": owner("Deployment", "web", deployment.metadata.uid.as_ref()),
        })
    );
    assert_eq!(
        shown["spec"]["selector"],
        json!({ "matchLabels": { "app": "web", "pod-template-hash": hash } })
    );
    assert_eq!(
        shown["status"],
        json!({
            "observedGeneration": 1,
            "replicas": 4,
            "fullyLabeledReplicas": 4,
            "readyReplicas": 4,
            "availableReplicas": 4,
            "terminatingReplicas": 0,
        })
    );
    for pod in stage.until_pods(4).await? {
        let meta = plain(&pod)?["metadata"].clone();
        assert_eq!(
            meta,
            json!({
                "annotations": { "note": "x" },
                "generateName": format!("{name}-"),
                "generation": 1,
                "labels": { "app": "web", "pod-template-hash": hash },
                "ownerReferences": owner("ReplicaSet", &name, set.metadata.uid.as_ref()),
            })
        );
    }
    Ok(())
}

#[tokio::test]
async fn daemon_sets_and_revisions() -> anyhow::Result<()> {
    let mut stage = Stage::start().await?;
    stage.keep_running();
    add_node(&stage, "a", "worker").await?;
    stage.create::<DaemonSet>(daemon_set("agent")).await?;
    let set = rolled_out(&stage, "agent", 1).await?;
    assert_eq!(
        plain(&set)?["status"],
        json!({
            "observedGeneration": 1,
            "desiredNumberScheduled": 1,
            "currentNumberScheduled": 1,
            "numberMisscheduled": 0,
            "numberReady": 1,
            "numberAvailable": 1,
            "updatedNumberScheduled": 1,
        })
    );
    let revisions = stage
        .api::<ControllerRevision>()
        .list(&ListParams::default())
        .await?
        .items;
    let [revision] = revisions.as_slice() else {
        anyhow::bail!("one revision was expected: {revisions:#?}");
    };
    let hash = revision.labels()["controller-revision-hash"].clone();
    assert_eq!(revision.name_any(), format!("agent-{hash}"));
    let owner = json!([{
        "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": set.metadata.uid,
        "controller": true, "blockOwnerDeletion": true,
    }]);
    let shown = plain(revision)?;
    assert_eq!(
        shown["metadata"],
        json!({
            "annotations": { "deprecated.daemonset.template.generation": "1" },
            "labels": { "app": "agent", "controller-revision-hash": hash },
            "ownerReferences": owner,
        })
    );
    assert_eq!(shown["revision"], 1);
    let mut template = plain(&set)?["spec"]["template"].clone();
    template["$patch"] = json!("replace");
    assert_eq!(
        without_nulls(&shown["data"]),
        json!({ "spec": { "template": template } })
    );

    let pod = stage.until_pods(1).await?.remove(0);
    let shown = plain(&pod)?;
    assert_eq!(
        shown["metadata"]["labels"],
        json!({ "app": "agent", "controller-revision-hash": hash, "pod-template-generation": "1" })
    );
    assert_eq!(shown["metadata"]["generateName"], "agent-");
    assert_eq!(shown["metadata"]["ownerReferences"], owner);
    assert_eq!(
        shown["spec"]["affinity"],
        json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{
                "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["a"] }],
            }],
        }}})
    );
    let borne = |key: &str, effect: &str| json!({ "key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": effect });
    assert_eq!(
        shown["spec"]["tolerations"],
        json!([
            borne("not-ready", "NoExecute"),
            borne("unreachable", "NoExecute"),
            borne("disk-pressure", "NoSchedule"),
            borne("memory-pressure", "NoSchedule"),
            borne("pid-pressure", "NoSchedule"),
            borne("unschedulable", "NoSchedule"),
        ])
    );
    Ok(())
}

/// Go serializes some unset times as null.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .filter(|(_, member)| !member.is_null())
            .map(|(key, member)| (key.clone(), without_nulls(member)))
            .collect(),
        other => other.clone(),
    }
}
