//! Claims and volumes.

use k8s_openapi::api::core::v1::{Event, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use testkit::wait_until;

use crate::{Controllers, WAIT_TIMEOUT, api, create, pod, service_account, until, until_gone};

fn volume(name: &str, size: &str, claim_ref: &Value) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": {
            "capacity": { "storage": size },
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "shelf",
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": claim_ref,
            // Upstream controllers really delete the path on their host, so it must not exist.
            "hostPath": { "path": "/tmp/medley-has-no-such-folder" },
        },
    })
}

fn claim(name: &str, class: &Value) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class,
            "resources": { "requests": { "storage": "2Gi" } },
        },
    })
}

fn is(phase: &'static str) -> impl Fn(&PersistentVolumeClaim) -> bool {
    move |claim| claim.status.as_ref().and_then(|it| it.phase.as_deref()) == Some(phase)
}

fn volume_is(phase: &'static str) -> impl Fn(&PersistentVolume) -> bool {
    move |volume| volume.status.as_ref().and_then(|it| it.phase.as_deref()) == Some(phase)
}

async fn until_event(
    events: &Api<Event>,
    about: &str,
    reason: &str,
    message: &str,
) -> anyhow::Result<()> {
    wait_until(
        &format!("{about}: {reason} {message}"),
        WAIT_TIMEOUT,
        || async {
            let list = events.list(&ListParams::default()).await?.items;
            let emitted = list.iter().any(|event| {
                event.involved_object.name.as_deref() == Some(about)
                    && event.reason.as_deref() == Some(reason)
                    && event.message.as_deref() == Some(message)
            });
            Ok(emitted.then_some(()))
        },
    )
    .await
}

#[tokio::test]
async fn claims_bind_to_matching_volumes() -> anyhow::Result<()> {
    let mut controllers = Controllers::start(controlplane::storage::start).await?;
    let cluster = &controllers.cluster;
    let namespace = cluster.namespace("storage").await?;
    service_account(cluster, &namespace).await?;
    let volumes: Api<PersistentVolume> = Api::all(cluster.client());
    let claims: Api<PersistentVolumeClaim> = api(cluster, &namespace);
    let events: Api<Event> = api(cluster, &namespace);

    create(&volumes, volume("large", "9Gi", &Value::Null)).await?;
    create(&volumes, volume("fitting", "3Gi", &Value::Null)).await?;
    let meant = json!({ "namespace": namespace, "name": "second" });
    create(&volumes, volume("meant", "50Gi", &meant)).await?;
    for name in ["large", "fitting", "meant"] {
        until(&volumes, name, "is free", volume_is("Available")).await?;
    }

    create(&claims, claim("first", &json!("shelf"))).await?;
    let bound = until(&claims, "first", "is bound", is("Bound")).await?;
    assert_eq!(json!(bound.spec)["volumeName"], json!("fitting"));
    assert_eq!(json!(bound.status)["capacity"]["storage"], json!("3Gi"));
    let annotations = json!(bound.metadata.annotations);
    assert_eq!(annotations["pv.kubernetes.io/bind-completed"], json!("yes"));
    assert_eq!(
        annotations["pv.kubernetes.io/bound-by-controller"],
        json!("yes")
    );

    // A restart in the middle of a binding changes nothing.
    controllers.stop().await;
    create(&claims, claim("second", &json!("shelf"))).await?;
    controllers.resume().await;
    let cluster = &controllers.cluster;
    let bound = until(&claims, "second", "is bound", is("Bound")).await?;
    assert_eq!(json!(bound.spec)["volumeName"], json!("meant"));
    let volume_of_second = until(&volumes, "meant", "is bound", volume_is("Bound")).await?;
    assert_eq!(
        json!(volume_of_second.spec)["claimRef"]["uid"],
        json!(bound.metadata.uid)
    );
    assert!(volume_is("Available")(&volumes.get("large").await?));

    create(&claims, claim("third", &json!(""))).await?;
    let text = "no persistent volumes available for this claim and no storage class is set";
    until_event(&events, "third", "FailedBinding", text).await?;

    // A claim in use stays until its pod is gone; then its volume is released and retained.
    let pods: Api<Pod> = api(cluster, &namespace);
    let uses = json!({ "nodeName": "n", "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "first" } }] });
    create(&pods, pod("user", uses)).await?;
    claims.delete("first", &DeleteParams::default()).await?;
    volumes.delete("meant", &DeleteParams::default()).await?;
    create(&claims, claim("fourth", &json!("shelf"))).await?;
    until(&claims, "fourth", "is bound", is("Bound")).await?;
    assert!(claims.get_opt("first").await?.is_some(), "a pod uses it");
    assert!(
        volumes.get_opt("meant").await?.is_some(),
        "a claim is bound to it"
    );
    pods.delete("user", &DeleteParams::default().grace_period(0))
        .await?;
    until_gone(&claims, "first").await?;
    until(&volumes, "fitting", "is released", volume_is("Released")).await?;

    // A claim whose volume is deleted becomes Lost.
    claims.delete("second", &DeleteParams::default()).await?;
    until_gone(&volumes, "meant").await?;
    let gone = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    volumes.delete("large", &DeleteParams::default()).await?;
    volumes
        .patch("large", &PatchParams::default(), &gone)
        .await?;
    until(&claims, "fourth", "is lost", is("Lost")).await?;
    controllers.stop().await;
    Ok(())
}

#[tokio::test]
async fn ephemeral_claims_follow_their_pod() -> anyhow::Result<()> {
    let mut controllers = Controllers::start(controlplane::storage::start).await?;
    let cluster = &controllers.cluster;
    let namespace = cluster.namespace("storage").await?;
    service_account(cluster, &namespace).await?;
    let volumes: Api<PersistentVolume> = Api::all(cluster.client());
    let claims: Api<PersistentVolumeClaim> = api(cluster, &namespace);
    let pods: Api<Pod> = api(cluster, &namespace);
    let mut folder = volume("folder", "3Gi", &Value::Null);
    folder["spec"]["persistentVolumeReclaimPolicy"] = json!("Delete");
    create(&volumes, folder).await?;
    let template = claim("ignored", &json!("shelf"))["spec"].clone();
    let volume =
        json!({ "name": "scratch", "ephemeral": { "volumeClaimTemplate": { "spec": template } } });
    let user = create(&pods, pod("user", json!({ "volumes": [volume] }))).await?;
    let bound = until(&claims, "user-scratch", "is bound", is("Bound")).await?;
    let owner = json!(bound.metadata.owner_references)[0].clone();
    assert_eq!(
        (&owner["kind"], &owner["uid"]),
        (&json!("Pod"), &json!(user.metadata.uid))
    );
    assert_eq!(json!(bound.spec)["volumeName"], json!("folder"));

    pods.delete("user", &DeleteParams::default().grace_period(0))
        .await?;
    claims
        .delete("user-scratch", &DeleteParams::default())
        .await?;
    until_gone(&volumes, "folder").await?;
    assert!(claims.get_opt("user-scratch").await?.is_none());
    controllers.stop().await;
    Ok(())
}

#[tokio::test]
async fn provisioners_are_requested_when_needed() -> anyhow::Result<()> {
    let mut controllers = Controllers::start(controlplane::storage::start).await?;
    let cluster = &controllers.cluster;
    let namespace = cluster.namespace("storage").await?;
    let classes: Api<StorageClass> = Api::all(cluster.client());
    let claims: Api<PersistentVolumeClaim> = api(cluster, &namespace);
    let events: Api<Event> = api(cluster, &namespace);

    // The default class also applies to claims created before it.
    create(&claims, claim("early", &Value::Null)).await?;
    create(&claims, claim("wrong", &json!("nowhere"))).await?;
    let text = "storageclass.storage.k8s.io \"nowhere\" not found";
    until_event(&events, "wrong", "ProvisioningFailed", text).await?;
    let default = json!({ "storageclass.kubernetes.io/is-default-class": "true" });
    create(
        &classes,
        json!({
            "metadata": { "name": "standard", "annotations": default },
            "provisioner": "example.com/disk",
        }),
    )
    .await?;
    let provisioning = until(
        &claims,
        "early",
        "has a provisioner",
        |claim: &PersistentVolumeClaim| {
            let annotations = claim.metadata.annotations.as_ref();
            annotations
                .is_some_and(|it| it.contains_key("volume.kubernetes.io/storage-provisioner"))
        },
    )
    .await?;
    assert_eq!(
        json!(provisioning.spec)["storageClassName"],
        json!("standard")
    );
    let annotations = json!(provisioning.metadata.annotations);
    assert_eq!(
        annotations["volume.kubernetes.io/storage-provisioner"],
        json!("example.com/disk")
    );
    assert_eq!(
        annotations["volume.beta.kubernetes.io/storage-provisioner"],
        json!("example.com/disk")
    );

    create(
        &classes,
        json!({
            "metadata": { "name": "late" },
            "provisioner": "example.com/disk",
            "volumeBindingMode": "WaitForFirstConsumer",
        }),
    )
    .await?;
    create(&claims, claim("patient", &json!("late"))).await?;
    let text = "waiting for first consumer to be created before binding";
    until_event(&events, "patient", "WaitForFirstConsumer", text).await?;
    let annotations = json!(claims.get("patient").await?.metadata.annotations);
    assert_eq!(
        annotations.get("volume.kubernetes.io/storage-provisioner"),
        None
    );
    let chosen = Patch::Merge(
        json!({ "metadata": { "annotations": { "volume.kubernetes.io/selected-node": "n" } } }),
    );
    claims
        .patch("patient", &PatchParams::default(), &chosen)
        .await?;
    let text = "Waiting for a volume to be created either by the external provisioner 'example.com/disk' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered.";
    until_event(&events, "patient", "ExternalProvisioning", text).await?;
    controllers.stop().await;
    Ok(())
}
