//! DataImportCrons whose source is in the cluster: a volume, or an image stream.

use api::cdi::{DataImportCron, DataSource, DataVolume};
use golden_images::cdi::access::{ACCOUNT, permissions, service_account};
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use testkit::{by, wait_until};

use crate::stage::{NAMESPACE, Stage, WAIT_TIMEOUT, condition};

const CRON: &str = "base-image-cron-arm64";
const ELSEWHERE: &str = "builds";

/// Creates a volume; returns its uid.
async fn base(stage: &Stage, namespace: &str) -> anyhow::Result<String> {
    let claim = serde_json::from_value(json!({
        "metadata": { "name": "base" },
        "spec": {
            "storageClassName": "fast", "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": "1Gi" } },
        },
    }))?;
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(stage.cluster.client(), namespace);
    let made = claims.create(&PostParams::default(), &claim).await?;
    Ok(format!("uid:{}", made.uid().unwrap_or_default()))
}

/// Grants a subject permission to clone from a namespace; returns when it is effective.
pub(crate) async fn allow(stage: &Stage, namespace: &str, who: Value) -> anyhow::Result<()> {
    let client = stage.cluster.client();
    let roles: Api<Role> = Api::namespaced(client.clone(), namespace);
    let role = serde_json::from_value(json!({
        "metadata": { "name": "copy" },
        "rules": [{
            "apiGroups": ["cdi.kubevirt.io"], "resources": ["datavolumes/source"], "verbs": ["create"],
        }],
    }))?;
    roles.create(&PostParams::default(), &role).await?;
    let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), namespace);
    let binding = serde_json::from_value(json!({
        "metadata": { "name": "copy" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "copy" },
        "subjects": [who],
    }))?;
    bindings.create(&PostParams::default(), &binding).await?;
    let account = service_account(NAMESPACE, ACCOUNT);
    let of = permissions(&api::cdi::Source::of_pvc(namespace, "base"));
    wait_until("the cluster knows the right", WAIT_TIMEOUT, async || {
        let may = runtime::access::is_allowed_any(&client, &account, of.clone()).await?;
        Ok(may.then_some(()))
    })
    .await
}

/// Creates a DataImportCron with a source other than a registry.
async fn cron(stage: &Stage, source: Value) -> anyhow::Result<()> {
    let mut patch = json!({ "spec": { "template": { "spec": { "source": source } } } });
    if patch
        .pointer("/spec/template/spec/source/registry")
        .is_none()
    {
        patch["spec"]["template"]["spec"]["source"]["registry"] = Value::Null;
    }
    stage.cron_with("base", "arm64", "", &patch).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn recreated_source_volume_is_imported() -> anyhow::Result<()> {
    let stage = Stage::importing(&[]).await?;
    cron(
        &stage,
        json!({ "pvc": { "namespace": NAMESPACE, "name": "base" } }),
    )
    .await?;
    stage.fails_for_now(CRON, "ImageNotFound").await?;
    let first = base(&stage, NAMESPACE).await?;
    stage.imported("base", "arm64", &first).await?;
    let claims: Api<PersistentVolumeClaim> = stage.api();
    claims.delete("base", &DeleteParams::default()).await?;
    stage.until_gone::<PersistentVolumeClaim>("base").await?;
    let second = base(&stage, NAMESPACE).await?;
    stage.refresh(CRON).await?;
    stage.imported("base", "arm64", &second).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn clone_from_other_namespace_needs_permission() -> anyhow::Result<()> {
    let stage = Stage::importing(&[]).await?;
    let client = stage.cluster.client();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let home = serde_json::from_value(json!({ "metadata": { "name": ELSEWHERE } }))?;
    namespaces.create(&PostParams::default(), &home).await?;
    let digest = base(&stage, ELSEWHERE).await?;
    cron(
        &stage,
        json!({ "pvc": { "namespace": ELSEWHERE, "name": "base" } }),
    )
    .await?;
    let object = stage.fails(CRON, "NotAuthorized").await?;
    assert_eq!(condition(&object, "Progressing").1, "NotAuthorized");
    let (_, _, message) = condition(&object, "UpToDate");
    let account = format!("system:serviceaccount:{NAMESPACE}:default");
    assert!(message.contains(&account), "{message}");
    assert_eq!(stage.imports().await?, Vec::<String>::new());

    let account = json!({ "kind": "ServiceAccount", "namespace": NAMESPACE, "name": "default" });
    allow(&stage, ELSEWHERE, account).await?;
    // RBAC changes cause no watch event: any other change triggers the reconcile.
    let crons: Api<DataImportCron> = stage.api();
    let patch = json!({ "metadata": { "annotations": { "looked": "at" } } });
    crons
        .patch(CRON, &by("admin"), &Patch::Merge(&patch))
        .await?;
    stage.imported("base", "arm64", &digest).await?;
    Ok(())
}

/// The ImageStream CRD, reduced to the fields used here.
fn definition() -> Value {
    json!({
        "metadata": { "name": "imagestreams.image.openshift.io" },
        "spec": {
            "group": "image.openshift.io", "scope": "Namespaced",
            "names": { "plural": "imagestreams", "singular": "imagestream", "kind": "ImageStream" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                } },
            }],
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn image_stream_tag_is_imported() -> anyhow::Result<()> {
    let stage = Stage::new().await?;
    let image = "example.com/medley:1".to_owned();
    let imports = controllers::images::cdi::Imports::Pods { image };
    stage.operator_with(imports).await?;
    let source = json!({ "registry": {
        "url": null, "imageStream": "base:41", "pullMethod": "node",
    } });
    cron(&stage, source).await?;
    stage.fails_for_now(CRON, "KindNotInstalled").await?;

    let client = stage.cluster.client();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definition = serde_json::from_value(definition())?;
    definitions
        .create(&PostParams::default(), &definition)
        .await?;
    stage.fails_for_now(CRON, "ImageNotFound").await?;
    let digest = format!("sha256:{}", "b".repeat(64));
    let reference = format!("registry.invalid/base@{digest}");
    let kind = GroupVersionKind::gvk("image.openshift.io", "v1", "ImageStream");
    let resource = ApiResource::from_gvk(&kind);
    let streams: Api<DynamicObject> = Api::namespaced_with(client, NAMESPACE, &resource);
    let stream: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "image.openshift.io/v1", "kind": "ImageStream", "metadata": { "name": "base" },
        "status": { "tags": [{ "tag": "41", "items": [
            { "image": digest, "dockerImageReference": reference },
        ] }] },
    }))?;
    wait_until("the kind is served", WAIT_TIMEOUT, async || {
        let made = streams.create(&PostParams::default(), &stream).await;
        Ok(made.ok())
    })
    .await?;
    let name = crate::stage::volume("base", "arm64", &digest);
    let volume = stage.until::<DataVolume>("made", &name, |_| true).await?;
    let registry = &volume["spec"]["source"]["registry"];
    assert_eq!(registry["url"], format!("docker://{reference}"));
    assert_eq!(registry["imageStream"], Value::Null);
    let sources: Api<DataSource> = stage.api();
    assert!(
        sources.get_opt("base-arm64").await?.is_none(),
        "not before it is imported"
    );
    Ok(())
}
