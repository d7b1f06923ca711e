//! The console of `medley up` in Chromium: a plan is reviewed, approved, watched and rolled back; an image is
//! imported and pinned; every page is accessible in every theme and width.
#![expect(clippy::unwrap_used, reason = "test helpers may panic like tests")]

mod binary;
mod console_browser;

use binary::MEDLEY;
use console_browser::start;
use fantoccini::key::Key;
use serde_json::json;

const CONFIG: &str = "/governance/load-aware-rebalancing";

#[tokio::test(flavor = "multi_thread")]
async fn plan_is_reviewed_approved_and_rolled_back() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let (server, browser) = start(folder.path()).await?;

    // The keyboard alone reaches the content, and every page.
    browser.open("/").await?;
    browser.wait_for_text("15 nodes of 3 architectures").await?;
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
    // The missing page is the only error in the browser's log.
    for complaint in browser.complaints().await? {
        assert!(complaint.to_string().contains("/nowhere"), "{complaint}");
    }

    // The plan is made while the page is open.
    browser.open(CONFIG).await?;
    browser.press("Request a plan").await?;
    browser.wait_for_text("Plan for review").await?;
    browser.inspect("governance", "/governance").await?;
    browser
        .inspect("plan-split", &format!("{CONFIG}?view=split"))
        .await?;
    browser.find("table.diff.split ins").await?;
    browser.inspect("plan", CONFIG).await?;

    // A half-filled form survives a re-render of the page.
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

    // Approved by keyboard, and watched without a reload.
    browser
        .run("document.getElementById('approve-button').focus()")
        .await?;
    browser.keys(&Key::Enter).await?;
    browser.wait_for_text("The plan is approved").await?;
    browser
        .run("document.body.dataset.mark = 'same page'")
        .await?;
    browser.find("#phase.good").await?;
    browser.wait_for_text("In force").await?;
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

    // Another field manager edits an applied field; the page names it, and the edit can be adopted.
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
    browser.wait_for_text("Changed manually").await?;
    browser.wait_for_text("kubectl-edit").await?;
    browser.inspect("drift", CONFIG).await?;
    browser
        .press("Adopt spec.deschedulingIntervalSeconds")
        .await?;
    browser
        .wait_for_text("Adopted as options: spec.deschedulingIntervalSeconds")
        .await?;
    browser.wait_for_text("In force").await?;

    // Rolled back, as a plan like any other.
    browser.press("Roll back revision 1 and later").await?;
    browser.wait_for_text("Plan for review").await?;
    browser.press("Approve and apply").await?;
    browser
        .wait_for_text("Reverted revision 1 and later")
        .await?;
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
async fn image_is_imported_pinned_and_rolled_back() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let (server, browser) = start(folder.path()).await?;
    browser.open("/images").await?;
    browser.find(".matrix .badge.good").await?;

    // Images for every architecture are imported while the page is open and shows the progress.
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
    browser.wait_for_text("is being polled").await?;
    browser
        .find("#versions-fedora-arm64 tbody tr:nth-child(2)")
        .await?;
    browser.inspect("image", image).await?;

    browser
        .press("Pin fedora-arm64 to the version in use")
        .await?;
    browser.wait_for_text("fedora-arm64 is pinned to").await?;
    let policy = server.ask(&[
        "get",
        "goldenimagepolicy",
        "default",
        "-o",
        "jsonpath={.spec.images[0].pins[0].architecture}",
    ]);
    assert_eq!(policy, "arm64");
    browser.press("Unpin fedora-arm64").await?;
    browser.wait_for_text("follows its source again").await?;
    browser.press("Roll back fedora-arm64").await?;
    browser.wait_for_text("is rolled back to").await?;
    browser.wait_for_text("pinned to").await?;

    assert_eq!(browser.complaints().await?, Vec::<serde_json::Value>::new());
    browser.close().await
}
