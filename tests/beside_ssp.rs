//! Golden images beside the genuine SSP operator: either takes over from the other, and nothing is deleted or imported
//! again.

#[path = "beside/cdi/controller.rs"]
mod controller;
#[path = "beside/fixture.rs"]
mod fixture;
#[path = "beside/ssp/imports.rs"]
mod imports;
#[path = "beside/ssp/story.rs"]
mod story;

use std::collections::BTreeMap;

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::Value;
use testkit::until;

use fixture::WAIT_TIMEOUT;
use imports::is_ready;
use story::{SSP, Story, template};

/// What has to outlive a hand-over: everything but metadata that both may write.
async fn images(story: &Story) -> anyhow::Result<BTreeMap<String, Value>> {
    let mut all = BTreeMap::new();
    let read = |object: &DynamicObject| {
        let kind = object.types.as_ref().map(|it| it.kind.clone());
        let name = format!("{} {}", kind.unwrap_or_default(), object.name_any());
        let mut value = object.data.clone();
        value["uid"] = object.metadata.uid.clone().into();
        if kind_is(object, "DataSource") {
            // CDI writes it again when it has seen the object.
            value["status"]["conditions"] = Value::Null;
        }
        (name, value)
    };
    for api in [
        story.crons(),
        story.sources(),
        story.volumes(),
        story.claims(),
        story.pods(),
    ] {
        all.extend(story.images(&api).await?.iter().map(read));
    }
    Ok(all)
}

fn kind_is(object: &DynamicObject, kind: &str) -> bool {
    object.types.as_ref().is_some_and(|it| it.kind == kind)
}

const DIGEST: &str = "1111111111111111111111111111111111111111111111111111111111111111";

async fn imported(story: &Story, crons: &[&str]) -> anyhow::Result<()> {
    for cron in crons {
        story.imported(cron, DIGEST).await?;
    }
    story.settles().await
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_taken_over_and_handed_back() -> anyhow::Result<()> {
    let mut story = Story::start().await?;
    let _cdi = story.cdi().await?;
    story.operator_runs().await?;
    let templates = [
        template("fedora", Some("amd64,arm64")),
        template("custom", Some("amd64,arm64")),
        template("plain", None),
    ];
    story.apply(true, &templates).await?;
    imported(
        &story,
        &[
            "fedora-image-cron-amd64",
            "fedora-image-cron-arm64",
            "custom-image-cron-amd64",
            "custom-image-cron-arm64",
            "plain-image-cron",
        ],
    )
    .await?;
    let before = images(&story).await?;
    story.stop_operator().await?;

    story.medley_runs().await?;
    until(&story.ssps(), SSP, "is taken over", WAIT_TIMEOUT, |ssp| {
        ssp.finalizers()
            .iter()
            .any(|it| it == "medley.dev/images-ssp")
    })
    .await?;
    story.settles().await?;
    assert_eq!(images(&story).await?, before);

    // Medley steps back by itself.
    story.operator_runs().await?;
    story.settles().await?;
    story.stop_medley();
    story.settles().await?;
    assert_eq!(images(&story).await?, before);
    for name in ["fedora", "custom", "plain"] {
        assert!(is_ready(&story.sources().get(name).await?), "{name}");
    }
    Ok(())
}
