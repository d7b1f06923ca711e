//! Changes of images that no controller acts on, waiting for their result, and output that scripts read.

use std::process::Stdio;

use api::cdi::DataImportCron;
use api::golden::{GoldenImagePolicy, NAME};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use testkit::has;

use super::{HOME, ImagesFixture, MEDLEY, OPERATOR, WAIT_TIMEOUT, digest};

#[tokio::test(flavor = "multi_thread")]
async fn change_without_a_controller_is_refused() -> anyhow::Result<()> {
    let fixture = ImagesFixture::start(true).await?;
    fixture.fedora().await?;
    for line in [
        &["pin", "fedora-amd64"][..],
        &["rollback", "fedora-amd64"],
        &["refresh", "fedora-amd64"],
    ] {
        let result = fixture.run_alone(line).await?.refused()?;
        has(
            &result,
            &[
                "no controller would act on this change: no operator of Medley is running",
                "Enable controller images-cdi: `medley manifests --controllers=",
                "--without-controller",
            ],
        );
    }
    assert_eq!(fixture.pinned_digest("fedora", "amd64").await?, None);

    // Another controller does not do.
    fixture.operator(&["governance", "release"]).await?;
    let result = fixture
        .run_alone(&["pin", "fedora-amd64"])
        .await?
        .refused()?;
    has(
        &result,
        &[
            "the operator in namespace medley-system (v0.0.1) runs governance, release, but not images-cdi",
            "--controllers=governance,images-cdi,release",
        ],
    );

    // A dry run and a change for later are written, with a warning.
    let line = ["pin", "fedora-amd64", "--dry-run=server"];
    let result = fixture.run_alone(&line).await?;
    has(&result.err, &["warning: no controller would act"]);
    result.ok()?;
    assert_eq!(fixture.pinned_digest("fedora", "amd64").await?, None);
    let line = ["pin", "fedora-amd64", "--without-controller"];
    let result = fixture.run_alone(&line).await?;
    has(&result.err, &["warning: no controller would act"]);
    result.ok()?;
    let pinned = fixture.pinned_digest("fedora", "amd64").await?;
    assert_eq!(pinned, Some(digest('a')));
    let result = fixture.run(&["unpin", "fedora-amd64"]).await?;
    has(
        &result.err,
        &["Acted on by controller images-cdi of the operator in namespace medley-system."],
    );
    result.ok()?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_pin_names_what_keeps_the_controller_from_importing() -> anyhow::Result<()> {
    let fixture = ImagesFixture::start(true).await?;
    fixture.fedora().await?;
    fixture.run(&["pin", "fedora-amd64"]).await?.ok()?;
    let api: Api<GoldenImagePolicy> = Api::all(fixture.client.clone());
    let status = |kind: &str| {
        json!({ "status": { "conditions": [{
            "type": kind, "status": "False", "reason": "SetByPolicy",
            "message": "GoldenImagePolicy default sets mode Assist",
            "lastTransitionTime": "2026-11-19T04:00:00Z",
        }] } })
    };
    // The controller that acts on pins is another one than that which this condition is about.
    let patch = Patch::Merge(status("Managing"));
    api.patch_status(NAME, &PatchParams::default(), &patch)
        .await?;
    fixture.run(&["pin", "fedora-amd64"]).await?.ok()?;
    let patch = Patch::Merge(status("ManagingImports"));
    api.patch_status(NAME, &PatchParams::default(), &patch)
        .await?;
    let result = fixture.run(&["unpin", "fedora-amd64"]).await?.refused()?;
    has(&result, &["GoldenImagePolicy default sets mode Assist"]);
    fixture.operator(&["governance"]).await?;
    api.patch_status(
        NAME,
        &PatchParams::default(),
        &Patch::Merge(json!({ "status": { "conditions": [] } })),
    )
    .await?;
    let result = fixture.run_alone(&["unpin", "fedora-amd64"]).await?;
    has(&result.refused()?, &["Enable controller images-cdi"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn refresh_is_acted_on_by_cdi() -> anyhow::Result<()> {
    let fixture = ImagesFixture::start(true).await?;
    fixture.fedora().await?;
    let api: Api<Deployment> = Api::namespaced(fixture.client.clone(), OPERATOR);
    let labels = json!({ "app": "cdi" });
    let deployment = json!({
        "metadata": { "name": "cdi-deployment" },
        "spec": {
            "replicas": 0,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "cdi", "image": "cdi" }] },
            },
        },
    });
    let deployment = serde_json::from_value(deployment)?;
    api.create(&PostParams::default(), &deployment).await?;
    let refresh = ["refresh", "fedora-amd64"];
    fixture.run_alone(&refresh).await?.refused()?;
    let wanted = Patch::Merge(json!({ "spec": { "replicas": 1 } }));
    api.patch("cdi-deployment", &PatchParams::default(), &wanted)
        .await?;
    let result = fixture.run_alone(&refresh).await?;
    has(
        &result.err,
        &["Acted on by CDI (Deployment medley-system/cdi-deployment)."],
    );
    result.ok()?;
    // Its next poll would overwrite a pin.
    let result = fixture.run_alone(&["pin", "fedora-amd64"]).await?;
    has(
        &result.refused()?,
        &["cannot pin DataImportCron", "beside CDI"],
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_reports_the_result() -> anyhow::Result<()> {
    let fixture = ImagesFixture::start(true).await?;
    fixture.fedora().await?;
    let line = ["pin", "fedora-amd64", "--wait", "--timeout", "30s"];
    let text = fixture.run(&line).await?.ok()?;
    has(&text, &["fedora-amd64 is Ready with sha256:aaaa"]);
    // No controller imports it here.
    let line = ["rollback", "fedora-amd64", "--wait", "--timeout", "1s"];
    let result = fixture.run(&line).await?.refused()?;
    has(
        &result,
        &[
            "timed out waiting for the version to be in use of fedora",
            "within 1s",
        ],
    );
    let line = ["pin", "fedora-amd64", "--wait", "--without-controller"];
    fixture.run(&line).await?.refused()?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn images_are_printed_by_templates_and_selected_by_labels() -> anyhow::Result<()> {
    let fixture = ImagesFixture::start(false).await?;
    fixture.fedora().await?;
    let sources = "jsonpath={range .items[*].architectures[*]}{.dataSource}={.state}{\"\\n\"}{end}";
    assert_eq!(
        fixture.run(&["-o", sources]).await?.ok()?,
        "fedora-amd64=Ready\nfedora-arm64=Failed\n"
    );
    let columns = "custom-columns=NAME:.name,ARCHITECTURES:.architectures[*].architecture";
    assert_eq!(
        fixture.run(&["-o", columns]).await?.ok()?,
        "NAME     ARCHITECTURES\nfedora   amd64,arm64\n"
    );
    let line = ["-o", columns, "--no-headers"];
    assert_eq!(fixture.run(&line).await?.ok()?, "fedora   amd64,arm64\n");
    let text = fixture.run(&["--no-headers"]).await?.ok()?;
    assert!(text.starts_with("fedora "), "{text}");
    let line = [
        "-l",
        "template.kubevirt.io/architecture=amd64",
        "-o",
        "name",
    ];
    assert_eq!(
        fixture.run(&line).await?.ok()?,
        "datasource.cdi.kubevirt.io/fedora-amd64\n"
    );
    let line = [
        "-o",
        "jsonpath={.none}",
        "--allow-missing-template-keys=false",
    ];
    has(
        &fixture.run(&line).await?.refused()?,
        &["none is not found"],
    );
    let line = ["-o", "go-template={{.items}}"];
    has(
        &fixture.run(&line).await?.refused()?,
        &["use jsonpath=TEMPLATE"],
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_rows_are_watched() -> anyhow::Result<()> {
    let fixture = ImagesFixture::start(false).await?;
    fixture.fedora().await?;
    let mut watching = tokio::process::Command::new(MEDLEY)
        .args(["images", "--watch"])
        .env("KUBECONFIG", &fixture.served.kubeconfig)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let out = watching.stdout.take().unwrap();
    let mut lines = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(out));
    let mut next = async || -> anyhow::Result<String> {
        let line = tokio::time::timeout(WAIT_TIMEOUT, lines.next_line()).await??;
        Ok(line.unwrap_or_default())
    };
    has(&next().await?, &["IMAGE", "ARCHITECTURE", "STATE"]);
    has(&next().await?, &["fedora", "amd64,default", "Ready"]);
    has(
        &next().await?,
        &["fedora", "arm64", "Failed:ArchitectureNotFound"],
    );
    let api: Api<DataImportCron> = Api::namespaced(fixture.client.clone(), HOME);
    let patch = Patch::Merge(json!({ "status": { "conditions": [{
        "type": "UpToDate", "status": "False", "reason": "RateLimited", "message": "later",
    }] } }));
    let params = PatchParams::default();
    api.patch("fedora-image-cron-arm64", &params, &patch)
        .await?;
    // Only the row that changed, and no second header.
    let changed = next().await?;
    has(&changed, &["fedora", "arm64"]);
    assert!(!changed.contains("ArchitectureNotFound"), "{changed}");

    let line = ["--watch", "-o", "json"];
    let result = fixture.run_alone(&line).await?.refused()?;
    has(&result, &["--watch prints rows"]);
    Ok(())
}
