//! Permission to view and clone golden images: granted to all users while an SSP exists.

use golden_images::cdi::access::{permissions, service_account};
use golden_images::ssp::view::NAME;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use testkit::wait_until;

use crate::stage::{HOME, IMAGES, Stage, WAIT_TIMEOUT, template};

#[tokio::test(flavor = "multi_thread")]
async fn all_users_may_clone_golden_images() -> anyhow::Result<()> {
    let stage = Stage::new(&["amd64", "amd64", "arm64"], &IMAGES).await?;
    let ask = async |templates: &[serde_json::Value]| {
        stage
            .ask(json!({
                "enableMultiArchBootImageImport": true, "dataImportCronTemplates": templates,
            }))
            .await
    };
    ask(&[template("fedora", Some("amd64,arm64"))]).await?;
    let client = stage.cluster.client();
    let anybody = service_account("machines", "whoever");
    let image = permissions(&api::cdi::Source::of_snapshot(HOME, "fedora-arm64-1"));
    let may = async || {
        wait_until("anybody may copy images", WAIT_TIMEOUT, async || {
            let may = runtime::access::is_allowed_any(&client, &anybody, image.clone()).await?;
            Ok(may.then_some(()))
        })
        .await
    };
    may().await?;
    let other = permissions(&api::cdi::Source::of_pvc("default", "disk"));
    assert!(!runtime::access::is_allowed_any(&client, &anybody, other).await?);

    // If deleted it is restored, like all objects created for an SSP.
    let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), HOME);
    let patch = Patch::Merge(json!({ "subjects": [] }));
    let params = PatchParams::default();
    bindings.patch(NAME, &params, &patch).await?;
    ask(&[
        template("fedora", Some("amd64,arm64")),
        template("centos", Some("arm64")),
    ])
    .await?;
    may().await?;

    // Objects that are not ours are left alone.
    let notes =
        json!({ "metadata": { "annotations": { "operator-sdk/primary-resource": "x/y" } } });
    let roles: Api<Role> = Api::namespaced(client.clone(), HOME);
    let patch = Patch::Merge(json!({ "rules": [] }));
    roles.patch(NAME, &params, &Patch::Merge(&notes)).await?;
    roles.patch(NAME, &params, &patch).await?;
    ask(&[template("fedora", Some("amd64,arm64"))]).await?;
    stage
        .has_crons(&["fedora-image-cron-amd64", "fedora-image-cron-arm64"])
        .await?;
    let left = roles.get(NAME).await?;
    assert!(left.rules.is_none_or(|rules| rules.is_empty()));
    stage.end().await;
    Ok(())
}
