//! Work in flight in the cluster holds disruptive items.

use api::advisor::{ItemState, Phase, VirtPlatformConfigStatus};
use api::approval::ApprovalPolicy;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use testkit::by;

use crate::stage::{LOAD_AWARE, Stage, item};

const REBOOT: &str = "enable-psi-metrics";

async fn gated(stage: &Stage, gates: &Value) -> anyhow::Result<()> {
    let policy = json!({
        "apiVersion": "medley.dev/v1alpha1", "kind": "ApprovalPolicy",
        "metadata": { "name": "production" },
        "spec": { "requiredApprovals": 0, "inFlightGates": gates },
    });
    let policies: Api<ApprovalPolicy> = Api::all(stage.cluster.client());
    let policy = Patch::Apply(policy);
    policies
        .patch("production", &by("admin").force(), &policy)
        .await?;
    Ok(())
}

/// Makes the operator look now, and not after the polling interval.
async fn poke(stage: &Stage, value: &str) -> anyhow::Result<()> {
    let patch = json!({ "metadata": { "annotations": { "example.com/poke": value } } });
    let patch = Patch::Merge(patch);
    stage
        .configs()
        .patch(LOAD_AWARE, &by("test"), &patch)
        .await?;
    Ok(())
}

fn waits_for(status: &VirtPlatformConfigStatus, text: &str) -> bool {
    let Some(reboot) = status.items.first() else {
        return false;
    };
    let message = reboot.message.as_deref().unwrap_or_default();
    reboot.state == ItemState::Pending
        && message.starts_with("Waiting until it has finished:")
        && message.contains(text)
}

#[tokio::test(flavor = "multi_thread")]
async fn reboot_waits_for_running_migrations() -> anyhow::Result<()> {
    let stage = Stage::quiet().await?;
    // Velero is not installed: nothing of it can be in flight.
    let gates = json!([
        { "name": "migrations", "preset": "Migrations" },
        { "name": "imports", "preset": "Imports" },
        { "name": "backups", "preset": "Backups" },
    ]);
    gated(&stage, &gates).await?;
    let kind = GroupVersionKind::gvk("kubevirt.io", "v1", "VirtualMachineInstanceMigration");
    let kind = ApiResource::from_gvk(&kind);
    let migrations: Api<DynamicObject> =
        Api::namespaced_with(stage.cluster.client(), "default", &kind);
    let migration = serde_json::from_value(json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstanceMigration",
        "metadata": { "name": "move-db" }, "spec": { "vmiName": "db" },
    }))?;
    migrations
        .create(&PostParams::default(), &migration)
        .await?;
    let reports = async |phase: &str| {
        let status = Patch::Merge(json!({ "status": { "phase": phase } }));
        let params = by("virt-controller");
        migrations.patch_status("move-db", &params, &status).await
    };
    reports("Running").await?;

    stage.edit(LOAD_AWARE, json!({ "action": "Apply" })).await?;
    let expected = "VirtualMachineInstanceMigration default/move-db (gate migrations of ApprovalPolicy production)";
    let status = stage
        .until("the reboot waits", LOAD_AWARE, |status| {
            waits_for(status, expected)
        })
        .await?;
    assert_eq!(status.phase, Some(Phase::InProgress));
    assert!(!stage.has_machine_config("99-worker-psi-karg").await?);

    reports("Succeeded").await?;
    poke(&stage, "migrated").await?;
    stage
        .until("the item is applied", LOAD_AWARE, |status| {
            item(status, REBOOT).state == ItemState::InProgress
        })
        .await?;
    assert!(stage.has_machine_config("99-worker-psi-karg").await?);
    stage.rolled_out("99-worker-psi-karg", 10, 10).await?;
    stage.reaches(LOAD_AWARE, Phase::Completed).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn gate_that_cannot_be_evaluated_holds() -> anyhow::Result<()> {
    let stage = Stage::quiet().await?;
    let gate = |kind: &str, expression: &str| {
        let objects = json!({ "apiVersion": "machineconfiguration.openshift.io/v1", "kind": kind });
        json!([{ "name": "own", "objects": objects, "expression": expression }])
    };
    gated(&stage, &gate("MachineConfigPol", "false")).await?;
    stage.edit(LOAD_AWARE, json!({ "action": "Apply" })).await?;
    let not_served = "kind MachineConfigPol of group \"machineconfiguration.openshift.io\" is not served in version v1";
    stage
        .until("the kind is reported", LOAD_AWARE, |status| {
            waits_for(status, not_served)
        })
        .await?;
    gated(&stage, &gate("MachineConfigPool", "object.status.nope > 0")).await?;
    stage
        .until("the expression is reported", LOAD_AWARE, |status| {
            waits_for(status, "nope")
        })
        .await?;
    assert!(!stage.has_machine_config("99-worker-psi-karg").await?);
    let paused = "has(object.spec.paused) && object.spec.paused";
    gated(&stage, &gate("MachineConfigPool", paused)).await?;
    stage
        .until("the item is applied", LOAD_AWARE, |status| {
            item(status, REBOOT).state == ItemState::InProgress
        })
        .await?;
    Ok(())
}
