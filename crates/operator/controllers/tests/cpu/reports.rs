//! Migration targets of virtual machines, as nodes come and go.

use kube::ResourceExt as _;
use serde_json::{Value, json};
use testkit::wait_until;

use crate::stage::{Stage, WAIT_TIMEOUT, best_match, is_in, machine, model};

const FLEET: &str = "
pools:
  - {name: ice, arch: amd64, count: 3, cpu: {generation: icelake}}
  - {name: sky, arch: amd64, cpu: {generation: skylake}}
";

/// Status of a condition.
fn condition(status: &Value, kind: &str) -> Value {
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let mut conditions = conditions.into_iter();
    let found = conditions.find(|it| it["type"] == kind);
    found.unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn migration_targets_follow_node_changes() -> anyhow::Result<()> {
    let stage = Stage::new(FLEET).await?;
    stage.policy(json!({})).await?;
    stage.machine("web", best_match(), "ice").await?;
    let web = stage.runs("web").await?;
    assert!(is_in(&web, "ice"));
    let model = model(&web).to_owned();
    assert!(model.starts_with("Icelake-Server"), "{model}");
    let all_well = |it: &Value| {
        it["machines"]["resolved"] == 1 && condition(it, "TargetsRemain")["status"] == "True"
    };
    let status = stage.status("all is well", all_well).await?;
    assert_eq!(condition(&status, "Ready")["status"], "True");
    assert_eq!(status["groups"][0]["nodes"], 3);
    let series = |count: u32| {
        let namespace = &stage.namespace;
        format!(
            "medley_cpu_migration_targets{{namespace=\"{namespace}\",name=\"web\",model=\"{model}\"}} {count}.0"
        )
    };
    let measured = async |count| {
        wait_until(&series(count), WAIT_TIMEOUT, async || {
            Ok(stage.metrics().contains(&series(count)).then_some(()))
        })
        .await
    };
    measured(2).await?;

    // All nodes of its kind but its own are cordoned.
    let nodes = ["ice-1", "ice-2", "ice-3"];
    let own = web.node_name().unwrap_or_default();
    let others: Vec<&str> = nodes.into_iter().filter(|node| *node != own).collect();
    stage.cordon(&others, true).await?;
    let event = stage.wait_for_event("web", "NoMigrationTarget").await?;
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    let stuck = stage
        .status("it cannot move", |it| {
            condition(it, "TargetsRemain")["status"] == "False"
        })
        .await?;
    let message = condition(&stuck, "TargetsRemain")["message"].clone();
    let name = format!("{}/web", stage.namespace);
    assert!(
        message.as_str().unwrap_or_default().contains(&name),
        "{message}"
    );
    assert_eq!(stuck["machines"]["stranded"], 1);
    measured(0).await?;
    assert!(
        stage
            .metrics()
            .contains("medley_cpu_machines{state=\"no_target\"} 1")
    );

    // A restarted controller finds the same state, and emits no event twice.
    stage.work().await?;
    measured(0).await?;
    assert_eq!(stage.events("web", "NoMigrationTarget").await?.len(), 1);

    // The nodes come back.
    stage.cordon(&others, false).await?;
    stage.wait_for_event("web", "MigrationTargetsBack").await?;
    stage.status("all is well again", all_well).await?;
    measured(2).await?;
    assert_eq!(stage.events("web", "CpuModelChosen").await?.len(), 1);
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_controls_model_choice() -> anyhow::Result<()> {
    let stage = Stage::new(FLEET).await?;
    // A model that all nodes support: that of the oldest.
    stage
        .policy(json!({ "threshold": { "support": "100%" } }))
        .await?;
    stage
        .status("it is read", |it| {
            condition(it, "Ready")["status"] == "True"
        })
        .await?;
    stage.machine("wide", best_match(), "ice").await?;
    let wide = stage.runs("wide").await?;
    assert!(is_in(&wide, "ice"));
    assert!(!model(&wide).starts_with("Icelake"), "{}", model(&wide));
    stage
        .policy(json!({ "excludedModels": [model(&wide)] }))
        .await?;
    stage.machine("other", best_match(), "ice").await?;
    let other = stage.runs("other").await?;
    assert_ne!(model(&other), model(&wide));
    let uid = wide.uid();
    let kept = stage
        .instance("wide", "is kept", |it| it.uid() == uid)
        .await?;
    assert_eq!(model(&kept), model(&wide), "what runs keeps its model");
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn vm_that_no_node_can_run_gets_a_warning() -> anyhow::Result<()> {
    let stage = Stage::new(FLEET).await?;
    let mut nowhere = machine("nowhere", &best_match(), "ice");
    nowhere["spec"]["template"]["spec"]["affinity"] = json!({ "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
            { "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["moon"] }] },
        ] },
    } });
    let machines = stage.all::<api::kubevirt::VirtualMachine>();
    let params = kube::api::PostParams::default();
    machines
        .create(&params, &serde_json::from_value(nowhere)?)
        .await?;
    let event = stage.wait_for_event("nowhere", "NoEligibleNode").await?;
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    let message = event.message.unwrap_or_default();
    assert!(message.contains("none of the 4 nodes"), "{message}");
    stage.end().await;
    Ok(())
}

/// What a launcher pod requests counts, not only what the instance selects.
#[tokio::test(flavor = "multi_thread")]
async fn targets_are_counted_by_the_launcher_pod() -> anyhow::Result<()> {
    let fleet = "
pools:
  - {name: ice, arch: amd64, count: 3, cpu: {generation: icelake}, capacity: {cpu: 8, memory: 16Gi, pods: 110}}
  - {name: big, arch: amd64, cpu: {generation: icelake}, capacity: {cpu: 32, memory: 64Gi, pods: 110}}
";
    let stage = Stage::new(fleet).await?;
    let cpu = json!({ "model": "best-match-model", "cores": 1 });
    let mut large = machine("large", &cpu, "big");
    large["spec"]["template"]["spec"]["domain"]["resources"] =
        json!({ "requests": { "memory": "32Gi" } });
    let machines = stage.all::<api::kubevirt::VirtualMachine>();
    let params = kube::api::PostParams::default();
    machines
        .create(&params, &serde_json::from_value(large)?)
        .await?;
    let large = stage.runs("large").await?;
    assert!(is_in(&large, "big"));
    let event = stage.wait_for_event("large", "NoMigrationTarget").await?;
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    let chosen = stage.wait_for_event("large", "CpuModelChosen").await?;
    let message = chosen.message.unwrap_or_default();
    assert!(message.contains("on node big-1"), "{message}");
    assert!(
        message.contains("0 other nodes can take the VM"),
        "{message}"
    );
    stage.end().await;
    Ok(())
}
