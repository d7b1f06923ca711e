//! Settings of administrators, and reports about them.

use api::golden::names::DEFAULT_REASON;
use golden_images::action::annotation;
use kube::api::DeleteParams;
use serde_json::json;
use testkit::wait_until;

use crate::stage::{HOME, IMAGES, Stage, WAIT_TIMEOUT, template};
use crate::switch::Guard;

#[tokio::test(flavor = "multi_thread")]
async fn default_architecture_can_be_set_and_reset() -> anyhow::Result<()> {
    let stage = Stage::new(&["amd64", "amd64", "arm64"], &IMAGES).await?;
    let all = [
        template("fedora", Some("amd64,arm64")),
        template("ubuntu", Some("amd64,arm64")),
    ];
    stage.ask_for(&all).await?;
    for cron in ["fedora", "ubuntu"] {
        for name in ["amd64", "arm64"] {
            stage.import(&format!("{cron}-image-cron-{name}")).await?;
        }
    }
    let fedora = stage.points_to("fedora", "fedora-amd64").await?;
    let why = |source: &api::cdi::DataSource| {
        let why = annotation(&source.metadata, DEFAULT_REASON);
        why.unwrap_or_default().to_owned()
    };
    assert_eq!(why(&fedora), "amd64 (ControlPlane)");
    let guard = Guard::of(&stage, "fedora").await?;

    // For one image.
    stage
        .policy(json!({ "images": [{
            "name": "fedora", "namespace": HOME, "defaultArchitecture": "arm64",
        }] }))
        .await?;
    let fedora = stage.points_to("fedora", "fedora-arm64").await?;
    assert_eq!(why(&fedora), "arm64 (ImagePolicy)");
    let status = wait_until("the policy reports it", WAIT_TIMEOUT, async || {
        let status = stage.policies().get("default").await?.status;
        let status = status.unwrap_or_default();
        let reported = status
            .images
            .iter()
            .any(|it| it.name == "fedora" && it.default_reason.as_deref() == Some("ImagePolicy"));
        Ok(reported.then_some(status))
    })
    .await?;
    let ubuntu = status.images.iter().find(|it| it.name == "ubuntu");
    let ubuntu = ubuntu.and_then(|it| it.default_architecture.as_deref());
    assert_eq!(ubuntu, Some("amd64"));
    let nodes = status.nodes.unwrap_or_default();
    assert_eq!(nodes.workload, ["amd64", "arm64"]);
    assert_eq!(nodes.default_reason.as_deref(), Some("ControlPlane"));

    // For all of them; the HyperConverged has the same setting.
    stage
        .policy(json!({ "defaultArchitecture": "arm64" }))
        .await?;
    stage.points_to("ubuntu", "ubuntu-arm64").await?;
    let fedora = stage.points_to("fedora", "fedora-arm64").await?;
    assert_eq!(why(&fedora), "arm64 (ClusterPolicy)");
    wait_until(
        "the HyperConverged says the same",
        WAIT_TIMEOUT,
        async || {
            let seen = stage.seen().await?;
            let actual = &seen["nodeInfo"]["defaultWorkloadArchitecture"];
            Ok((actual == "arm64").then_some(()))
        },
    )
    .await?;

    // Back again.
    stage
        .policies()
        .delete("default", &DeleteParams::default())
        .await?;
    stage.points_to("fedora", "fedora-amd64").await?;
    stage.points_to("ubuntu", "ubuntu-amd64").await?;
    guard.held()?;
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_settings_are_reported() -> anyhow::Result<()> {
    let stage = Stage::new(&["amd64", "amd64", "arm64"], &IMAGES).await?;
    stage.ask_for(&[template("fedora", Some("amd64"))]).await?;
    stage
        .policy(json!({
            "defaultArchitecture": "vax",
            "images": [{ "name": "fedora", "defaultArchitecture": "arm64" }],
        }))
        .await?;
    let reported = wait_until("the policy reports it", WAIT_TIMEOUT, async || {
        let status = stage.policies().get("default").await?.status;
        let conditions = status.unwrap_or_default().conditions;
        let mut conditions = conditions.into_iter();
        Ok(conditions.find(|it| it.type_ == "Accepted" && it.status == "False"))
    })
    .await?;
    assert!(reported.message.contains("\"vax\""), "{}", reported.message);
    // An impossible request is reported where it was made.
    let ssp = stage
        .ssp("it is degraded", |ssp| {
            golden_images::ssp::status::degraded(ssp.status.as_ref()).is_some()
        })
        .await?;
    let degraded = golden_images::ssp::status::degraded(ssp.status.as_ref()).unwrap_or_default();
    assert_eq!(
        degraded.reason.as_deref(),
        Some("DefaultArchitectureRefused")
    );
    stage.import("fedora-image-cron-amd64").await?;
    stage.points_to("fedora", "fedora-amd64").await?;
    stage.end().await;
    Ok(())
}
