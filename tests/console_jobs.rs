//! The console of `medley up` in Chromium: CPU models and what would change them, releases, placement, and a
//! virtual machine that is made for arm64. Every page can be read in every form.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test may fail as the test does"
)]

mod binary;
mod console_browser;

use std::path::Path;

use binary::Server;
use console_browser::{Browser, link};
use fantoccini::Locator;
use fantoccini::key::Key;

/// A cluster, and a browser that is signed in to its console.
async fn start(folder: &Path) -> anyhow::Result<(Server, Browser)> {
    let server = Server::up(
        folder,
        &[
            "--memory",
            "--speed",
            "100",
            "--console",
            "127.0.0.1:0",
            "--kubeconfig",
            "kubeconfig",
        ],
    );
    let (base, link) = link(&server.process.output());
    let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("console");
    let browser = Browser::start(folder, &base, &pictures).await?;
    browser.open(&link).await?;
    // The button has the focus.
    browser.keys(&Key::Enter).await?;
    browser.find("nav a[aria-current]").await?;
    Ok((server, browser))
}

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
    browser.keys("rome").await?;
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

    assert_eq!(browser.complaints().await?, Vec::<serde_json::Value>::new());
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
    assert_eq!(browser.complaints().await?, Vec::<serde_json::Value>::new());
    browser.close().await
}
