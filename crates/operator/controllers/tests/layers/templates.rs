//! Virtual machine templates: one per architecture, each with its own DataSource.

use fleet::operators::{names, template as template_kind};
use fleet::registry::machine_templates;
use kube::Api;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::stage::{IMAGES, Stage, has, template};

/// The DataSource that a virtual machine template names.
fn source(template: &DynamicObject) -> Option<&str> {
    let parameters = template.data["parameters"].as_array()?;
    let named = |it: &&Value| it["name"] == "DATA_SOURCE_NAME";
    parameters.iter().find(named)?["value"].as_str()
}

#[tokio::test(flavor = "multi_thread")]
async fn vm_templates_use_images_of_their_architecture() -> anyhow::Result<()> {
    let stage = Stage::new(&["amd64", "amd64", "arm64"], &IMAGES).await?;
    let mut machines = machine_templates();
    machines.retain(|it| it["metadata"]["name"].to_string().contains("fedora"));
    let images = [template("fedora", Some("amd64,arm64,s390x"))];
    stage.build_in(&images, &machines).await?;
    let api: Api<DynamicObject> = Api::namespaced_with(
        stage.cluster.client(),
        names::TEMPLATE_NAMESPACE,
        &template_kind(),
    );
    // One architecture for all.
    has(&api, &["fedora-server-small"]).await?;
    assert_eq!(
        source(&api.get("fedora-server-small").await?),
        Some("fedora")
    );
    stage
        .ask(json!({ "enableMultiArchBootImageImport": true }))
        .await?;
    has(&api, &["fedora-server-small", "fedora-server-small-arm64"]).await?;
    let arm64 = api.get("fedora-server-small-arm64").await?;
    assert_eq!(source(&arm64), Some("fedora-arm64"));
    stage
        .has_sources(&["fedora", "fedora-amd64", "fedora-arm64"])
        .await?;
    testkit::wait_until(
        "amd64 is named, too",
        crate::stage::WAIT_TIMEOUT,
        async || {
            let amd64 = api.get("fedora-server-small").await?;
            Ok((source(&amd64) == Some("fedora-amd64")).then_some(()))
        },
    )
    .await?;
    stage.policy(json!({ "gracePeriod": "0s" })).await?;
    stage.remove_node("node-2").await?;
    has(&api, &["fedora-server-small"]).await?;
    stage.end().await;
    Ok(())
}
