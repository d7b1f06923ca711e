//! The console of `medley up` in Chromium: a plan is reviewed, approved, followed and undone; an image is
//! imported and pinned; every page can be read in every form.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test may fail as the test does"
)]

mod binary;
mod console_browser;

use binary::MEDLEY;
use console_browser::start;
use fantoccini::key::Key;
use serde_json::json;

const CONFIG: &str = "/governance/load-aware-rebalancing";

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_reviewed_approved_followed_and_undone() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let (server, browser) = start(folder.path()).await?;

    // Keys alone lead to the content, and to every page.
    browser.open("/").await?;
    browser.says("15 nodes of 3 architectures").await?;
    browser.keys(&Key::Tab).await?;
    assert_eq!(
        browser
            .run("return document.activeElement.className")
            .await?,
        "skip"
    );
    browser.keys(&Key::Enter).await?;
    assert_eq!(
        browser.run("return document.activeElement.id").await?,
        "main"
    );
    assert_eq!(
        browser
            .run("return document.querySelectorAll('.fleet rect.node').length")
            .await?,
        15
    );
    browser.inspect("overview", "/").await?;
    browser.inspect("sign-in", "/sign-in").await?;
    browser.inspect("problem", "/nowhere").await?;
    // What is not there is the only thing that was complained of.
    for complaint in browser.complaints().await? {
        assert!(complaint.to_string().contains("/nowhere"), "{complaint}");
    }

    // The plan is made while the page is open.
    browser.open(CONFIG).await?;
    browser.press("Make a plan").await?;
    browser.says("Plan for review").await?;
    browser.inspect("governance", "/governance").await?;
    browser
        .inspect("plan-split", &format!("{CONFIG}?view=split"))
        .await?;
    browser.find("table.diff.split ins").await?;
    browser.inspect("plan", CONFIG).await?;

    // What is half filled in survives that the page is rendered again.
    let first = "document.querySelector('#approve input[name=item]')";
    browser.run(&format!("{first}.focus()")).await?;
    browser.keys(" ").await?;
    let mark = "const real = window.fetch; window.merged = 0; window.fetch = async (...all) => { const answer = await real(...all); setTimeout(() => window.merged++, 200); return answer; };";
    browser.run(mark).await?;
    server.ask(&[
        "annotate",
        "virtplatformconfig",
        "load-aware-rebalancing",
        "example.com/note=1",
    ]);
    browser.until("return window.merged > 0").await?;
    assert_eq!(
        browser.run(&format!("return {first}.checked")).await?,
        false
    );
    browser.keys(" ").await?;

    // Approved by keyboard, and followed without a reload.
    browser
        .run("document.getElementById('approve-button').focus()")
        .await?;
    browser.keys(&Key::Enter).await?;
    browser.says("The plan is approved").await?;
    browser
        .run("document.body.dataset.mark = 'same page'")
        .await?;
    browser.find("#phase.good").await?;
    browser.says("In force").await?;
    assert_eq!(
        browser.run("return document.body.dataset.mark").await?,
        "same page"
    );
    assert_eq!(
        browser
            .run("return document.querySelectorAll('.step.done').length")
            .await?,
        2
    );

    // Somebody edits what was applied; the page tells who, and it can be adopted.
    let edit = json!({ "spec": { "deschedulingIntervalSeconds": 120 } }).to_string();
    let namespace = "openshift-kube-descheduler-operator";
    server.ask(&[
        "patch",
        "kubedescheduler",
        "cluster",
        "-n",
        namespace,
        "--type",
        "merge",
        "-p",
        &edit,
        "--field-manager",
        "kubectl-edit",
    ]);
    browser.says("Somebody edited it").await?;
    browser.says("kubectl-edit").await?;
    browser.inspect("drift", CONFIG).await?;
    browser
        .press("Adopt spec.deschedulingIntervalSeconds")
        .await?;
    browser
        .says("Adopted as options: spec.deschedulingIntervalSeconds")
        .await?;
    browser.says("In force").await?;

    // Undone, as a plan like any other.
    browser.press("Roll back revision 1 and later").await?;
    browser.says("Plan for review").await?;
    browser.press("Approve and carry out").await?;
    browser.says("Undid revision 1 and later").await?;
    browser.find("#phase.good").await?;
    let left = server.kubectl(&["get", "kubedescheduler", "cluster", "-n", namespace]);
    assert!(!left.status.success(), "what was created is gone");
    browser
        .inspect("history", &format!("{CONFIG}/history/1"))
        .await?;

    assert_eq!(browser.complaints().await?, Vec::<serde_json::Value>::new());
    browser.close().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_imported_pinned_and_rolled_back() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let (server, browser) = start(folder.path()).await?;
    browser.open("/images").await?;
    browser.find(".matrix .badge.good").await?;

    // Images for every architecture are imported while the page is open, which shows it.
    let every = r#"{"spec":{"workloadSources":{"enableMultiArchBootImageImport":true}}}"#;
    let object = [
        "hyperconverged",
        "kubevirt-hyperconverged",
        "-n",
        "openshift-cnv",
    ];
    server.ask(&[&["patch", "--type", "merge", "-p", every], &object[..]].concat());
    let fedora = "#image-kubevirt-os-images-fedora";
    browser
        .find(&format!("{fedora} td:nth-child(3) .badge.good"))
        .await?;
    browser.inspect("images", "/images").await?;

    let image = "/images/kubevirt-os-images/fedora";
    browser.open(image).await?;
    browser.find("#state-fedora-arm64.good").await?;
    let published = std::process::Command::new(MEDLEY)
        .args([
            "fleet",
            "publish",
            "fedora",
            "--arch",
            "arm64",
            "--kubeconfig",
        ])
        .arg(folder.path().join("kubeconfig"))
        .output()?;
    assert!(
        published.status.success(),
        "{}",
        binary::text(&published.stderr)
    );
    browser.press("Refresh fedora-arm64").await?;
    browser.says("is being asked").await?;
    browser
        .find("#versions-fedora-arm64 tbody tr:nth-child(2)")
        .await?;
    browser.inspect("image", image).await?;

    browser
        .press("Pin fedora-arm64 to the version in use")
        .await?;
    browser.says("fedora-arm64 is pinned to").await?;
    let policy = server.ask(&[
        "get",
        "goldenimagepolicy",
        "default",
        "-o",
        "jsonpath={.spec.images[0].pins[0].architecture}",
    ]);
    assert_eq!(policy, "arm64");
    browser.press("Unpin fedora-arm64").await?;
    browser.says("follows its source again").await?;
    browser.press("Roll back fedora-arm64").await?;
    browser.says("is rolled back to").await?;
    browser.says("pinned to").await?;

    assert_eq!(browser.complaints().await?, Vec::<serde_json::Value>::new());
    browser.close().await
}
