//! The console of `medley up` in Chromium: CPU models and what-if, releases, placement, and creating a virtual
//! machine for arm64. Every page is accessible in every theme and width.
#![expect(clippy::unwrap_used, reason = "test helpers may panic like tests")]

mod binary;
mod console_browser;
#[path = "images_cli_support.rs"]
#[allow(dead_code, reason = "other suites use the rest of it")]
mod images;

use std::time::Duration;

use anyhow::Context as _;
use console_browser::start;
use fantoccini::Locator;
use fantoccini::key::Key;
use images::Fixture;
use serde_json::{Value, json};
use testkit::ScriptedResponse;

#[tokio::test(flavor = "multi_thread")]
async fn cpu_release_and_placement_pages_are_accessible() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let (server, browser) = start(folder.path()).await?;

    browser.open("/cpu").await?;
    browser.find(".heat td.heat-4").await?;
    browser.find("#machines").await?;
    browser.inspect("cpu", "/cpu").await?;
    // A what-if, by keyboard alone.
    browser.open("/cpu").await?;
    browser
        .run("document.getElementById('like').focus()")
        .await?;
    browser.keys("EPYC-R").await?;
    browser.keys(&Key::Enter).await?;
    browser.press("Evaluate").await?;
    browser.find("#outcome").await?;
    browser
        .inspect("cpu-what-if", "/cpu?remove=rome-1&count=1")
        .await?;

    browser.open("/release").await?;
    browser.wait_for_text("operators report images").await?;
    browser.inspect("release", "/release").await?;

    server.ask(&[
        "create",
        "deployment",
        "web",
        "--image=127.0.0.1:1/shop/web:1",
    ]);
    browser.open("/placement").await?;
    browser.wait_for_text("127.0.0.1:1/shop/web:1").await?;
    browser.press("Query registries").await?;
    browser.wait_for_text("Registries were queried for").await?;
    browser.wait_for_text("Does not answer").await?;
    browser.inspect("placement", "/placement").await?;

    assert_eq!(browser.complaints().await?, Vec::<Value>::new());
    browser.close().await
}

#[tokio::test(flavor = "multi_thread")]
async fn import_progress_is_live() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let (server, browser) = start(folder.path()).await?;
    let fixture = Fixture::new()?;
    let layer = fixture.layer("amd64")?;
    // The download is slowed down, so that progress can be observed.
    let registry = fixture
        .serve("all", move |hash, bytes, _| {
            if hash == layer {
                return ScriptedResponse::slow(bytes, 64 << 10, Duration::from_millis(300));
            }
            ScriptedResponse::answer(200, bytes)
        })
        .await?;
    let host = registry.host();
    // The importer has to be configured for plain HTTP.
    let known = server.ask(&["get", "cdi", "-o", "json"]);
    let known: Value = serde_json::from_str(&known)?;
    let importer = &known["items"][0];
    let all = importer["spec"]["config"]["insecureRegistries"].as_array();
    let mut all = all.cloned().unwrap_or_default();
    all.push(json!(host));
    let patch = json!({ "spec": { "config": { "insecureRegistries": all } } }).to_string();
    let name = importer["metadata"]["name"].as_str().context("a name")?;
    server.ask(&["patch", "cdi", name, "--type", "merge", "-p", &patch]);
    let configured = || {
        let config = server.ask(&["get", "cdiconfig", "config", "-o", "json"]);
        config.contains(&host).then_some(())
    };
    binary::until("the importer is configured", configured);
    browser.open("/images").await?;
    browser
        .run("document.body.dataset.mark = 'same page'")
        .await?;
    let cron = json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataImportCron",
        "metadata": { "name": "slow-cron", "namespace": "kubevirt-os-images" },
        "spec": {
            "managedDataSource": "slow", "schedule": "0 0 1 1 *",
            "template": { "spec": {
                "source": { "registry": { "url": format!("docker://{host}/disks/all:1") } },
                "storage": { "resources": { "requests": { "storage": "1Gi" } } },
            } },
        },
    });
    let file = folder.path().join("cron.json");
    std::fs::write(&file, cron.to_string())?;
    server.ask(&["create", "-f", file.to_str().context("a path")?]);
    let row = "#image-kubevirt-os-images-slow";
    browser.find(&format!("{row} progress")).await?;
    // The progress bar grows without a reload, and disappears at the end.
    let bar = format!("document.querySelector('{row} progress')");
    let grows = format!(
        "const bar = {bar}; const last = window.first ??= bar?.value; return !!bar && bar.value > last && bar.value < 100"
    );
    browser.until(&grows).await?;
    assert_eq!(
        browser.run("return document.body.dataset.mark").await?,
        "same page"
    );
    browser.inspect("images-importing", "/images").await?;
    browser
        .inspect("image-importing", "/images/kubevirt-os-images/slow")
        .await?;
    browser.open("/images").await?;
    browser.find(&format!("{row} .badge.good")).await?;
    browser.until(&format!("return !{bar}")).await?;
    assert_eq!(browser.complaints().await?, Vec::<Value>::new());
    browser.close().await
}

#[tokio::test(flavor = "multi_thread")]
async fn virtual_machine_is_created_for_arm64() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let (server, browser) = start(folder.path()).await?;
    server.ask(&[
        "patch",
        "hyperconverged",
        "kubevirt-hyperconverged",
        "-n",
        "openshift-cnv",
        "--type",
        "merge",
        "-p",
        r#"{"spec":{"workloadSources":{"enableMultiArchBootImageImport":true}}}"#,
    ]);
    browser.inspect("machines", "/machines").await?;
    browser
        .inspect("wizard-architecture", "/machines/new")
        .await?;
    browser.open("/machines/new").await?;
    let arm = browser.find("a[href='/machines/new?arch=arm64']").await?;
    arm.click().await?;
    browser.wait_for_text("Which image for arm64?").await?;
    let image = browser.find("a.choice[href*='fedora-arm64']").await?;
    let href = image.attr("href").await?.unwrap_or_default();
    browser
        .inspect("wizard-image", "/machines/new?arch=arm64")
        .await?;
    browser.inspect("wizard-details", &href).await?;
    browser.open(&href).await?;
    // The name has the focus.
    browser.keys("tried-out").await?;
    browser.keys(&Key::Enter).await?;
    browser
        .wait_for_text("default/tried-out was created")
        .await?;
    let architecture = server.ask(&[
        "get",
        "vm",
        "tried-out",
        "-o",
        "jsonpath={.spec.template.spec.architecture}",
    ]);
    assert_eq!(architecture, "arm64");
    // It starts while the page is open.
    let running = "#vm-default-tried-out .badge.good";
    browser.find(running).await?;
    let row = browser
        .client
        .find(Locator::Css("#vm-default-tried-out"))
        .await?;
    assert!(row.text().await?.contains("arm-"), "{}", row.text().await?);
    assert_eq!(browser.complaints().await?, Vec::<Value>::new());
    browser.close().await
}
