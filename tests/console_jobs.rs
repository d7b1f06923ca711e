//! The console of `medley up` in Chromium: CPU models and what would change them, releases, placement, and a
//! virtual machine that is made for arm64. Every page can be read in every form.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test may fail as the test does"
)]

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
use testkit::Misdeed;

#[tokio::test(flavor = "multi_thread")]
async fn models_releases_and_placement_are_looked_at() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let (server, browser) = start(folder.path()).await?;

    browser.open("/cpu").await?;
    browser.find(".heat td.heat-4").await?;
    browser.find("#machines").await?;
    browser.inspect("cpu", "/cpu").await?;
    // A question, by keyboard alone.
    browser.open("/cpu").await?;
    browser
        .run("document.getElementById('like').focus()")
        .await?;
    browser.keys("EPYC-R").await?;
    browser.keys(&Key::Enter).await?;
    browser.press("Ask").await?;
    browser.find("#outcome").await?;
    browser
        .inspect("cpu-what-if", "/cpu?remove=rome-1&count=1")
        .await?;

    browser.open("/release").await?;
    browser.says("operators report images").await?;
    browser.inspect("release", "/release").await?;

    server.ask(&[
        "create",
        "deployment",
        "web",
        "--image=127.0.0.1:1/shop/web:1",
    ]);
    browser.open("/placement").await?;
    browser.says("127.0.0.1:1/shop/web:1").await?;
    browser.press("Ask registries").await?;
    browser.says("Registries were asked about").await?;
    browser.says("Does not answer").await?;
    browser.inspect("placement", "/placement").await?;

    assert_eq!(browser.complaints().await?, Vec::<Value>::new());
    browser.close().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_is_watched() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let (server, browser) = start(folder.path()).await?;
    let fixture = Fixture::new()?;
    let layer = fixture.layer("amd64")?;
    // It takes a while, as imports do.
    let registry = fixture
        .serve("all", move |hash, bytes, _| {
            if hash == layer {
                return Misdeed::slow(bytes, 64 << 10, Duration::from_millis(300));
            }
            Misdeed::answer(200, bytes)
        })
        .await?;
    let host = registry.host();
    // The importer has to know that it speaks without TLS.
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
    // The bar grows, without a reload, until there is none.
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
async fn a_machine_is_made_for_arm64() -> anyhow::Result<()> {
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
    browser.says("Which image for arm64?").await?;
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
    browser.says("default/tried-out was made").await?;
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
