//! Simulated storage on a real API server, with the control plane's volume binder.

use std::fmt::Debug;
use std::time::Duration;

use fleet::storage::snapshots::{VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent};
use fleet::storage::{self, Options};
use k8s_openapi::api::core::v1::{Event, Node, PersistentVolume, PersistentVolumeClaim};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource};
use runtime::Manager;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testkit::{TestCluster, wait_until};

/// Generous: test hosts are loaded.
const WAIT_TIMEOUT: Duration = Duration::from_mins(1);

async fn start(cluster: &TestCluster) -> anyhow::Result<Manager> {
    let manager = Manager::new(cluster.client());
    let options = Options {
        client: cluster.client(),
        speed: 10.0,
        classes: true,
    };
    storage::start(&manager, options).await?;
    controlplane::storage::start(&manager).await;
    Ok(manager)
}

fn api<K>(cluster: &TestCluster, namespace: &str) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    Api::namespaced(cluster.client(), namespace)
}

async fn create<K>(api: &Api<K>, object: Value) -> anyhow::Result<K>
where
    K: Clone + Debug + Serialize + DeserializeOwned,
{
    let object: K = serde_json::from_value(object)?;
    Ok(api.create(&PostParams::default(), &object).await?)
}

async fn until<K>(
    api: &Api<K>,
    name: &str,
    what: &str,
    is: impl Fn(&Value) -> bool,
) -> anyhow::Result<Value>
where
    K: Clone + Debug + Serialize + DeserializeOwned,
{
    let is = |object: &K| is(&json!(object));
    Ok(json!(
        testkit::until(api, name, what, WAIT_TIMEOUT, is).await?
    ))
}

async fn until_gone<K>(api: &Api<K>, name: &str) -> anyhow::Result<()>
where
    K: Clone + Debug + DeserializeOwned,
{
    testkit::until_gone(api, name, WAIT_TIMEOUT).await
}

fn claim(name: &str, size: &str, rest: &Value) -> Value {
    let mut claim = json!({
        "metadata": { "name": name },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": size } } },
    });
    for (key, field) in rest.as_object().into_iter().flatten() {
        claim["spec"][key] = field.clone();
    }
    claim
}

fn snapshot(name: &str, claim: &str) -> Value {
    json!({
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshot",
        "metadata": { "name": name },
        "spec": { "source": { "persistentVolumeClaimName": claim } },
    })
}

fn is_bound(claim: &Value) -> bool {
    claim["status"]["phase"] == json!("Bound")
}

async fn until_said(
    events: &Api<Event>,
    about: &str,
    reason: &str,
    part: &str,
) -> anyhow::Result<()> {
    wait_until(
        &format!("{about}: {reason} ..{part}.."),
        WAIT_TIMEOUT,
        || async {
            let list = events.list(&ListParams::default()).await?.items;
            let emitted = list.iter().any(|event| {
                event.involved_object.name.as_deref() == Some(about)
                    && event.reason.as_deref() == Some(reason)
                    && event
                        .message
                        .as_deref()
                        .is_some_and(|message| message.contains(part))
            });
            Ok(emitted.then_some(()))
        },
    )
    .await
}

#[tokio::test]
async fn claims_get_volumes_that_expand_and_are_deleted() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let namespace = cluster.namespace("fleet").await?;
    let manager = start(&cluster).await?;
    let volumes: Api<PersistentVolume> = Api::all(cluster.client());
    let claims: Api<PersistentVolumeClaim> = api(&cluster, &namespace);
    let events: Api<Event> = api(&cluster, &namespace);

    // The default class provisions volumes immediately.
    let created = create(&claims, claim("data", "2Gi", &json!({}))).await?;
    let bound = until(&claims, "data", "is bound", is_bound).await?;
    let name = format!("pvc-{}", created.metadata.uid.unwrap_or_default());
    assert_eq!(bound["spec"]["volumeName"], json!(name));
    assert_eq!(bound["spec"]["storageClassName"], json!("fast"));
    until_said(&events, "data", "ProvisioningSucceeded", &name).await?;

    // The claim is expanded, and the manager stops before the expansion completes.
    let more =
        Patch::Merge(json!({ "spec": { "resources": { "requests": { "storage": "3Gi" } } } }));
    claims.patch("data", &PatchParams::default(), &more).await?;
    manager.stop().await;
    let manager = start(&cluster).await?;
    let grown = until(&claims, "data", "has grown", |claim| {
        claim["status"]["capacity"]["storage"] == json!("3Gi")
    })
    .await?;
    assert_eq!(grown["status"].get("conditions"), None);
    assert_eq!(
        json!(volumes.get(&name).await?.spec)["capacity"]["storage"],
        json!("3Gi")
    );
    until_said(
        &events,
        "data",
        "VolumeResizeSuccessful",
        "Resize volume succeeded",
    )
    .await?;

    // A clone of it, and a clone that is too small.
    let source = json!({ "dataSource": { "kind": "PersistentVolumeClaim", "name": "data" } });
    create(&claims, claim("copy", "3Gi", &source)).await?;
    let copy = until(&claims, "copy", "is bound", is_bound).await?;
    let volume = volumes
        .get(copy["spec"]["volumeName"].as_str().unwrap_or_default())
        .await?;
    assert_eq!(
        json!(volume.spec)["csi"]["volumeAttributes"]["sourceVolume"],
        json!(name)
    );
    create(&claims, claim("small", "1Gi", &source)).await?;
    until_said(
        &events,
        "small",
        "ProvisioningFailed",
        "is less than the size",
    )
    .await?;

    claims.delete("data", &DeleteParams::default()).await?;
    until_gone(&claims, "data").await?;
    until_gone(&volumes, &name).await?;
    assert_eq!(
        volumes.list(&ListParams::default()).await?.items.len(),
        1,
        "the copy has its own"
    );
    manager.stop().await;
    Ok(())
}

#[tokio::test]
async fn local_volumes_bind_to_the_selected_node() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let namespace = cluster.namespace("fleet").await?;
    let manager = start(&cluster).await?;
    let nodes: Api<Node> = Api::all(cluster.client());
    let volumes: Api<PersistentVolume> = Api::all(cluster.client());
    let claims: Api<PersistentVolumeClaim> = api(&cluster, &namespace);
    let events: Api<Event> = api(&cluster, &namespace);
    let labels = json!({ "kubernetes.io/hostname": "host-1" });
    create(
        &nodes,
        json!({ "metadata": { "name": "n1", "labels": labels } }),
    )
    .await?;
    create(
        &claims,
        claim("data", "1Gi", &json!({ "storageClassName": "local" })),
    )
    .await?;
    until_said(
        &events,
        "data",
        "WaitForFirstConsumer",
        "waiting for first consumer",
    )
    .await?;
    assert!(volumes.list(&ListParams::default()).await?.items.is_empty());

    // A selected node that no longer exists is dropped.
    let select = |node: &str| {
        let annotations = json!({ "volume.kubernetes.io/selected-node": node });
        Patch::Merge(json!({ "metadata": { "annotations": annotations } }))
    };
    claims
        .patch("data", &PatchParams::default(), &select("gone"))
        .await?;
    until(&claims, "data", "waits for another node", |claim| {
        let annotations = &claim["metadata"]["annotations"];
        annotations
            .get("volume.kubernetes.io/selected-node")
            .is_none()
            && annotations
                .get("volume.kubernetes.io/storage-provisioner")
                .is_some()
    })
    .await?;
    claims
        .patch("data", &PatchParams::default(), &select("n1"))
        .await?;
    let bound = until(&claims, "data", "is bound", is_bound).await?;
    let volume = volumes
        .get(bound["spec"]["volumeName"].as_str().unwrap_or_default())
        .await?;
    let spec = json!(volume.spec);
    let terms = spec.pointer("/nodeAffinity/required/nodeSelectorTerms/0/matchExpressions");
    let expected =
        json!([{ "key": "kubernetes.io/hostname", "operator": "In", "values": ["host-1"] }]);
    assert_eq!(terms, Some(&expected));
    manager.stop().await;
    Ok(())
}

#[tokio::test]
async fn snapshots_are_taken_restored_and_deleted() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let namespace = cluster.namespace("fleet").await?;
    let manager = start(&cluster).await?;
    let volumes: Api<PersistentVolume> = Api::all(cluster.client());
    let claims: Api<PersistentVolumeClaim> = api(&cluster, &namespace);
    let snapshots: Api<VolumeSnapshot> = api(&cluster, &namespace);
    let contents: Api<VolumeSnapshotContent> = Api::all(cluster.client());

    // A snapshot of a missing claim reports an error, and is taken once the claim exists.
    let created = create(&snapshots, snapshot("early", "data")).await?;
    let wrong = until(&snapshots, "early", "says what is wrong", |snapshot| {
        snapshot["status"]["error"]["message"].is_string()
    })
    .await?;
    let message = wrong["status"]["error"]["message"]
        .as_str()
        .unwrap_or_default();
    assert!(message.contains("not found"), "{message}");
    assert_eq!(wrong["status"]["readyToUse"], json!(false));
    create(&claims, claim("data", "2Gi", &json!({}))).await?;
    until(&claims, "data", "is bound", is_bound).await?;
    let ready = until(&snapshots, "early", "is ready", |snapshot| {
        snapshot["status"]["readyToUse"] == json!(true)
    })
    .await?;
    let content = format!("snapcontent-{}", created.metadata.uid.unwrap_or_default());
    assert_eq!(
        ready["status"]["boundVolumeSnapshotContentName"],
        json!(content)
    );
    assert_eq!(ready["status"]["restoreSize"], json!("2Gi"));
    assert_eq!(ready["status"].get("error"), None);
    assert_eq!(ready["spec"]["volumeSnapshotClassName"], json!("fast"));
    until(&claims, "data", "is free again", |claim| {
        let finalizers = claim["metadata"]["finalizers"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        finalizers == [json!("kubernetes.io/pvc-protection")]
    })
    .await?;

    // A volume restored from it outlives it. The manager restarts in between.
    manager.stop().await;
    let manager = start(&cluster).await?;
    let source = json!({ "dataSourceRef": {
        "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "early",
    } });
    create(&claims, claim("restored", "2Gi", &source)).await?;
    let restored = until(&claims, "restored", "is bound", is_bound).await?;
    let volume = volumes
        .get(restored["spec"]["volumeName"].as_str().unwrap_or_default())
        .await?;
    let handle = json!(contents.get(&content).await?.status)["snapshotHandle"].clone();
    assert_eq!(
        json!(volume.spec)["csi"]["volumeAttributes"]["sourceSnapshot"],
        handle
    );
    snapshots.delete("early", &DeleteParams::default()).await?;
    until_gone(&snapshots, "early").await?;
    until_gone(&contents, &content).await?;
    assert!(is_bound(&json!(claims.get("restored").await?)));

    // A retained content is kept, and can be bound to another snapshot.
    let classes: Api<VolumeSnapshotClass> = Api::all(cluster.client());
    create(
        &classes,
        json!({
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "kind": "VolumeSnapshotClass",
            "metadata": { "name": "keep" },
            "driver": storage::DRIVER,
            "deletionPolicy": "Retain",
        }),
    )
    .await?;
    let mut kept = snapshot("kept", "data");
    kept["spec"]["volumeSnapshotClassName"] = json!("keep");
    create(&snapshots, kept).await?;
    let ready = until(&snapshots, "kept", "is ready", |it| {
        it["status"]["readyToUse"] == json!(true)
    })
    .await?;
    let content = ready["status"]["boundVolumeSnapshotContentName"]
        .as_str()
        .unwrap_or_default();
    snapshots.delete("kept", &DeleteParams::default()).await?;
    until_gone(&snapshots, "kept").await?;
    assert_eq!(
        contents.get(content).await?.metadata.deletion_timestamp,
        None
    );
    let handle = json!(contents.get(content).await?.status)["snapshotHandle"].clone();
    create(
        &contents,
        json!({
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "kind": "VolumeSnapshotContent",
            "metadata": { "name": "imported" },
            "spec": {
                "deletionPolicy": "Delete",
                "driver": storage::DRIVER,
                "source": { "snapshotHandle": handle },
                "volumeSnapshotRef": { "name": "again", "namespace": namespace },
            },
        }),
    )
    .await?;
    create(
        &snapshots,
        json!({
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "kind": "VolumeSnapshot",
            "metadata": { "name": "again" },
            "spec": { "source": { "volumeSnapshotContentName": "imported" } },
        }),
    )
    .await?;
    until(&snapshots, "again", "is ready", |it| {
        it["status"]["readyToUse"] == json!(true)
    })
    .await?;
    manager.stop().await;
    Ok(())
}

/// Dropped managers do not shut down gracefully: their reconciles stop at any await point.
#[tokio::test]
async fn killed_controllers_lose_and_duplicate_nothing() -> anyhow::Result<()> {
    const CLAIMS: usize = 24;
    let cluster = TestCluster::start().await?;
    let namespace = cluster.namespace("fleet").await?;
    let volumes: Api<PersistentVolume> = Api::all(cluster.client());
    let claims: Api<PersistentVolumeClaim> = api(&cluster, &namespace);
    let manager = start(&cluster).await?;
    for number in 0..CLAIMS {
        create(&claims, claim(&format!("data-{number}"), "1Gi", &json!({}))).await?;
    }
    let bound = async || -> anyhow::Result<usize> {
        let list = claims.list(&ListParams::default()).await?;
        Ok(list
            .items
            .iter()
            .filter(|claim| is_bound(&json!(claim)))
            .count())
    };
    let mut manager = Some(manager);
    // Each manager is dropped as soon as it has made progress, in the middle of the next operation.
    for _ in 0..5 {
        let before = volumes.list(&ListParams::default()).await?.items.len();
        wait_until("something happens", WAIT_TIMEOUT, || async {
            let now = volumes.list(&ListParams::default()).await?.items.len();
            Ok((now > before || now == CLAIMS).then_some(()))
        })
        .await?;
        drop(manager.take());
        manager = Some(start(&cluster).await?);
    }
    wait_until("all claims are bound", WAIT_TIMEOUT, || async {
        Ok((bound().await? == CLAIMS).then_some(()))
    })
    .await?;
    let list = volumes.list(&ListParams::default()).await?.items;
    let mut of: Vec<_> = list
        .iter()
        .map(|volume| json!(volume.spec)["claimRef"]["name"].to_string())
        .collect();
    of.sort();
    of.dedup();
    assert_eq!(
        (of.len(), list.len()),
        (CLAIMS, CLAIMS),
        "one volume for each claim"
    );
    if let Some(manager) = manager {
        manager.stop().await;
    }
    Ok(())
}
