//! `medley audit` and `medley plan -o markdown`, on a cluster with a running operator.
#[path = "governance_cli_support.rs"]
#[allow(dead_code, reason = "shared with other suites")]
mod support;

use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use support::{GovernanceFixture, NAME, NAMESPACE, WAIT_TIMEOUT, digest, has};
use testkit::wait_until;

#[tokio::test(flavor = "multi_thread")]
async fn audit_log_is_exported_and_verified() -> anyhow::Result<()> {
    let fixture = GovernanceFixture::start().await?;
    let config = fixture.completed().await?;
    // The log follows the history.
    let text = wait_until("the plan is logged", WAIT_TIMEOUT, async || {
        let text = fixture.run(&["audit", "export"]).await?.ok()?;
        Ok(text.contains("\"event\":\"Ended\"").then_some(text))
    })
    .await?;
    let entries: Vec<Value> = text
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    let events: Vec<_> = entries.iter().map(|entry| entry["event"].clone()).collect();
    assert_eq!(events, ["Planned", "Started", "Item", "Item", "Ended"]);
    assert_eq!(entries[1]["planDigest"], digest(&config));
    assert_eq!(
        entries[2]["after"]["spec.kernelArguments"],
        json!(["psi=1"])
    );
    assert_eq!(entries[4]["result"], "Completed");

    let verified = fixture.run(&["audit", "verify"]).await?.ok()?;
    let head = entries[4]["hash"].as_str().unwrap_or_default();
    let expected = format!("5 entries are intact, 1 to 5\nHead: {head}\n");
    assert_eq!(verified, expected);
    let file = fixture.served.folder().join("audit.jsonl");
    std::fs::write(&file, &text)?;
    let path = file.to_str().unwrap_or_default();
    let line = ["audit", "verify", "-f", path, "--head", head];
    assert_eq!(fixture.run(&line).await?.ok()?, expected);
    let later = fixture
        .run(&["audit", "export", "--from", "5"])
        .await?
        .ok()?;
    assert_eq!(later.lines().count(), 1);

    std::fs::write(&file, text.replace("psi=1", "psi=0"))?;
    let failed = fixture.run(&["audit", "verify", "-f", path]).await?;
    has(&failed.refused()?, &["entry 3 was changed"]);

    // In the cluster, the API server keeps segments from being edited, and verification finds a missing one.
    let revisions: Api<ControllerRevision> = Api::namespaced(fixture.cluster.client(), NAMESPACE);
    let log = ListParams::default().labels("medley.dev/audit");
    let segments = revisions.list(&log).await?.items;
    assert!(
        segments.len() > 1,
        "each step of the plan is logged when it happens"
    );
    let name = segments[1].name_any();
    let edit = Patch::Merge(json!({ "data": { "entries": [] } }));
    let refused = revisions.patch(&name, &PatchParams::default(), &edit).await;
    assert!(
        refused.is_err(),
        "the data of a ControllerRevision is immutable"
    );
    fixture.manager.clone().stop().await;
    revisions.delete(&name, &DeleteParams::default()).await?;
    let failed = fixture.run(&["audit", "verify"]).await?;
    has(&failed.refused()?, &["after entry 1 follows entry"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn plan_is_printed_as_a_comment() -> anyhow::Result<()> {
    let fixture = GovernanceFixture::start().await?;
    let config = fixture.review().await?;
    let text = fixture.run(&["plan", NAME, "-o", "markdown"]).await?.ok()?;
    assert!(text.starts_with("<!-- medley plan -->\n"), "{text}");
    has(
        &text,
        &[
            "### :pencil2: load-aware-rebalancing",
            "**2 changes, impact High**",
            &digest(&config),
            "| `enable-psi-metrics` | Apply | MachineConfig 99-worker-psi-karg | High | +12 -0 |",
            "**Derived from**",
            "<details><summary><code>enable-psi-metrics</code></summary>",
            "```diff\n--- /dev/null\n+++ 99-worker-psi-karg (MachineConfig)",
        ],
    );
    Ok(())
}
