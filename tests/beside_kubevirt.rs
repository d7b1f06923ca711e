//! CPU models beside the genuine virt-controller and virt-api: a VM gets its model with the hand-off to its node, and
//! migrates within it.

#[path = "beside/fixture.rs"]
mod fixture;
#[path = "beside/kubevirt/install.rs"]
mod install;
#[path = "../crates/lab/fleet/recordings/kubevirt/story.rs"]
mod recorded;
#[path = "../crates/lab/fleet/recordings/kubevirt/roles.rs"]
mod roles;
#[path = "beside/kubevirt/story.rs"]
mod story;

use anyhow::Context as _;
use kube::ResourceExt as _;
use serde_json::{Value, json};
use testkit::peer_version;
use testkit::recording::recording;

use roles::POOL;
use story::{Story, model};

/// The node selector for a model that no node has.
const IMPOSSIBLE: &str = "cpu-model.node.kubevirt.io/best-match-model";
/// The newest model that two of the Intel nodes support. The newest of `icelake-1` alone is another one.
const SHARED_MODEL: &str = "Skylake-Server-noTSX-IBRS";

/// A VM on an Intel node, preferably `icelake-1`.
fn on_icelake() -> Value {
    json!({
        "nodeSelector": { POOL: "Intel" },
        "affinity": { "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 100,
            "preference": { "matchExpressions": [
                { "key": "kubernetes.io/hostname", "operator": "In", "values": ["icelake-1"] },
            ] },
        }] } },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn vm_is_handed_over_with_a_model_and_migrates_within_it() -> anyhow::Result<()> {
    let story = Story::start().await?;
    assert_eq!(story.create("web", on_icelake()).await?, [""; 0]);
    let launcher = story.launcher("web", None).await?;
    let spec = &launcher.data["spec"];
    assert_eq!(spec["nodeName"], "icelake-1");
    let selector = &spec["nodeSelector"];
    assert_eq!(selector[IMPOSSIBLE], Value::Null);
    assert_eq!(selector["kubevirt.io/schedulable"], "true");
    assert_eq!(selector["machine-type.node.kubevirt.io/q35"], "true");
    // The VM may end up with host-model. No node is excluded for that: it may support a model by name.
    let affinity = &spec["affinity"]["nodeAffinity"];
    assert_eq!(
        affinity["requiredDuringSchedulingIgnoredDuringExecution"],
        Value::Null
    );
    let preferred = affinity["preferredDuringSchedulingIgnoredDuringExecution"].as_array();
    let avoided = json!({ "key": "node-labeller.kubevirt.io/obsolete-host-model", "operator": "DoesNotExist" });
    let last = preferred.and_then(|terms| terms.last()).context("terms")?;
    assert_eq!(last["preference"]["matchExpressions"], json!([avoided]));
    let accepted = story.instances().get("web").await?;
    assert_eq!(model(&accepted), "best-match-model");

    let handed_over = story.run_guest("web").await?;
    assert_eq!(model(&handed_over), SHARED_MODEL);
    assert_eq!(handed_over.data["status"]["nodeName"], "icelake-1");
    // Neither the first version with the phase lacks the model, nor any later one.
    for version in story.history(&story.instances(), &accepted).await? {
        let phase = version.data["status"]["phase"].clone();
        let chosen = model(&version) == SHARED_MODEL;
        assert_eq!(
            chosen,
            phase == "Scheduled" || phase == "Running",
            "{phase}"
        );
    }
    for (annotation, value) in [
        ("medley.dev/cpu-model", SHARED_MODEL),
        ("medley.dev/cpu-model-asked", "best-match-model"),
        ("medley.dev/cpu-model-node", "icelake-1"),
        ("medley.dev/cpu-model-reason", "BestMatch"),
    ] {
        assert_eq!(handed_over.annotations()[annotation], value);
    }
    story.event("web", "CpuModelChosen").await?;
    // The VM still asks for best-match-model, and that is not taken for a change that a restart has to apply.
    let machine = story.machines().get("web").await?;
    let conditions = machine.data["status"]["conditions"].to_string();
    assert!(!conditions.contains("RestartRequired"), "{conditions}");

    let migration = story.migrate("web").await?;
    let target = story.launcher("web", Some(&migration)).await?;
    let selector = &target.data["spec"]["nodeSelector"];
    assert_eq!(
        selector[format!("cpu-model.node.kubevirt.io/{SHARED_MODEL}")],
        "true"
    );
    assert_eq!(selector[IMPOSSIBLE], Value::Null);
    assert_eq!(selector["cpu-vendor.node.kubevirt.io/Intel"], "true");
    // virt-controller asks for the machine type that runs.
    assert_eq!(
        selector["machine-type.node.kubevirt.io/pc-q35-10.1"],
        "true"
    );
    let node = target.data["spec"]["nodeName"].as_str().unwrap_or_default();
    assert!(node.starts_with("skylake-"), "{node}");

    story.move_guest("web", &migration, &target).await?;
    let moved = story.instances().get("web").await?;
    assert_eq!(model(&moved), SHARED_MODEL);
    assert_eq!(moved.data["status"]["nodeName"], node);
    let listed = story
        .beside
        .medley(&["cpu", "vms", "-n", story::NAMESPACE, "-o", "json"])?
        .ok()?;
    assert!(listed.contains(SHARED_MODEL), "{listed}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn vm_that_no_model_fits_is_admitted_with_a_warning() -> anyhow::Result<()> {
    let story = Story::start().await?;
    let alone = json!({ "nodeSelector": { POOL: "AMD" } });
    let warnings = story.create("alone", alone).await?;
    let warned = warnings.iter().any(|it| it.contains("host-model"));
    assert!(warned, "{warnings:?}");

    let handed_over = story.run_guest("alone").await?;
    assert_eq!(model(&handed_over), "host-model");
    assert_eq!(
        handed_over.annotations()["medley.dev/cpu-model-reason"],
        "TooFewSupporters"
    );

    // A migration asks for the host model of the first node, and finds no other node.
    let migration = story.migrate("alone").await?;
    let target = story
        .pod("alone", Some(&migration), "is unschedulable", |pod| {
            let conditions = pod.data["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            conditions.any(|it| it["reason"] == "Unschedulable")
        })
        .await?;
    let selector = &target.data["spec"]["nodeSelector"];
    for label in [
        "cpu-model-migration.node.kubevirt.io/EPYC-Milan",
        "cpu-feature.node.kubevirt.io/ssbd",
        "cpu-vendor.node.kubevirt.io/AMD",
    ] {
        assert_eq!(selector[label], "true", "{label}");
    }
    story
        .event("alone", "NoSuitableNodesForHostModelMigration")
        .await?;
    story.event("alone", "NoMigrationTarget").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_user_changes_neither_model_nor_status() -> anyhow::Result<()> {
    let story = Story::start().await?;
    story.create("web", on_icelake()).await?;
    let launcher = story.launcher("web", None).await?;

    // Medley chooses a model for an instance that it sees as handed over; virt-api then denies the change.
    let scheduled = json!({ "status": { "phase": "Scheduled", "nodeName": "icelake-1" } });
    let denied = story.patch_as_user("web", scheduled).await.err();
    let denied = denied.map(|error| error.to_string()).unwrap_or_default();
    assert!(
        denied.contains("update of VMI object is restricted"),
        "{denied}"
    );
    let instance = story.phase("web", "Scheduling").await?;
    assert_eq!(model(&instance), "best-match-model");
    // A choice that a user records is not one.
    let forged = json!({ "metadata": { "annotations": {
        "medley.dev/cpu-model": "Haswell-noTSX", "medley.dev/cpu-model-asked": "best-match-model",
        "medley.dev/cpu-model-node": "icelake-1", "medley.dev/cpu-model-reason": "BestMatch",
    } } });
    story.patch_as_user("web", forged).await?;

    story.run_pod(&launcher).await?;
    let handed_over = story.phase("web", "Scheduled").await?;
    assert_eq!(model(&handed_over), SHARED_MODEL);
    let other = json!({ "spec": { "domain": { "cpu": { "model": "Haswell-noTSX" } } } });
    let denied = story.patch_as_user("web", other).await.err();
    let denied = denied.map(|error| error.to_string()).unwrap_or_default();
    assert!(
        denied.contains("update of VMI object is restricted"),
        "{denied}"
    );
    // virt-api drops a user's changes of the status, and admits the rest.
    let running = json!({ "status": { "phase": "Running" } });
    let written = story.patch_as_user("web", running).await?;
    assert_eq!(written.data["status"]["phase"], "Scheduled");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn kubevirt_retries_until_the_webhook_answers() -> anyhow::Result<()> {
    let mut story = Story::start().await?;
    story.kill_webhook();
    story.create("web", on_icelake()).await?;
    let failed = story.event("web", "FailedCreate").await?;
    let message = failed.data["message"].as_str().unwrap_or_default();
    assert!(message.contains("launchers.cpu.medley.dev"), "{message}");
    story.webhook_runs().await?;
    let launcher = story.launcher("web", None).await?;

    story.kill_webhook();
    story.run_pod(&launcher).await?;
    story.controller_logs("hand-off.cpu.medley.dev").await?;
    let waiting = story.instances().get("web").await?;
    assert_eq!(waiting.data["status"]["phase"], "Scheduling");
    story.webhook_runs().await?;
    let handed_over = story.phase("web", "Scheduled").await?;
    assert_eq!(model(&handed_over), SHARED_MODEL);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn vm_created_before_the_webhook_was_registered_is_restarted() -> anyhow::Result<()> {
    let mut story = Story::without_medley().await?;
    story.create("web", on_icelake()).await?;
    let stuck = story
        .instance("web", "is unschedulable", |instance| {
            let conditions = instance.data["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            conditions.any(|it| it["reason"] == "Unschedulable")
        })
        .await?;
    let launcher = story.pod("web", None, "exists", |_| true).await?;
    assert_eq!(launcher.data["spec"]["nodeSelector"][IMPOSSIBLE], "true");

    story.medley_runs().await?;
    story.event("web", "LauncherRemoved").await?;
    story
        .instance("web", "is another", |instance| {
            instance.uid() != stuck.uid()
        })
        .await?;
    let handed_over = story.run_guest("web").await?;
    assert_eq!(model(&handed_over), SHARED_MODEL);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn vm_handed_over_without_a_model_is_restarted() -> anyhow::Result<()> {
    let mut story = Story::start().await?;
    story.create("web", on_icelake()).await?;
    let launcher = story.launcher("web", None).await?;
    story.unregister().await?;
    story.run_pod(&launcher).await?;
    let without = story.phase("web", "Scheduled").await?;
    assert_eq!(model(&without), "best-match-model");

    // virt-api denies that Medley sets the model now, so the VM starts again.
    story.webhook_runs().await?;
    story.event("web", "LauncherRemoved").await?;
    story
        .instance("web", "is another", |instance| {
            instance.uid() != without.uid()
        })
        .await?;
    let handed_over = story.run_guest("web").await?;
    assert_eq!(model(&handed_over), SHARED_MODEL);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn virt_controller_writes_what_is_recorded() -> anyhow::Result<()> {
    let story = Story::without_nodes().await?;
    let client = story.beside.cluster.client();
    let recorded = recorded::Story::prepare(client, &story.handler()?).await?;
    let played = recorded.play().await;
    let trace = story.explain(played)?.finish();
    let version = peer_version("virt-controller")?;
    trace.assert_recorded(&recording(recorded::RECORDING), &version)
}
