//! The webhook is down for a while: requests wait, and succeed afterwards.

use api::kubevirt::VirtualMachine;
use fleet::names::READY_AFTER;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use testkit::wait_until;

use crate::stage::{Stage, WAIT_TIMEOUT, best_match, machine, model};

const FLEET: &str = "
pools:
  - {name: ice, arch: amd64, count: 3, cpu: {generation: icelake}}
";

#[tokio::test(flavor = "multi_thread")]
async fn vm_started_while_webhook_is_down_starts_later() -> anyhow::Result<()> {
    let stage = Stage::new(FLEET).await?;
    stage.stop_webhook().await;
    stage.machine("web", best_match(), "ice").await?;
    stage.wait_for_event("web", "FailedCreate").await?;
    let pods = stage.all::<Pod>().list(&ListParams::default()).await?;
    assert_eq!(pods.items.len(), 0, "no pod is made that no node can run");
    // Other virtual machines are not affected.
    stage
        .machine("other", json!({ "model": "host-model" }), "ice")
        .await?;
    stage.runs("other").await?;
    stage.start_webhook().await?;
    let web = stage.runs("web").await?;
    assert!(model(&web).starts_with("Icelake-Server"), "{}", model(&web));
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn hand_off_waits_for_webhook() -> anyhow::Result<()> {
    let stage = Stage::new(FLEET).await?;
    let mut slow = machine("slow", &best_match(), "ice");
    // In simulated time, which is faster.
    let metadata = json!({ "annotations": { READY_AFTER: "2000s" } });
    slow["spec"]["template"]["metadata"] = metadata;
    let slow = serde_json::from_value(slow)?;
    let machines = stage.all::<VirtualMachine>();
    machines.create(&PostParams::default(), &slow).await?;
    let scheduling = stage
        .instance("slow", "has a pod", |it| it.phase() == "Scheduling")
        .await?;
    stage.stop_webhook().await;
    wait_until("its pod is ready", WAIT_TIMEOUT, async || {
        let pods = stage.all::<Pod>().list(&ListParams::default()).await?;
        let ready = |pod: &Pod| {
            let status = pod.status.as_ref();
            let containers = status.and_then(|status| status.container_statuses.as_ref());
            containers.is_some_and(|all| all.iter().all(|one| one.ready))
        };
        Ok(pods.items.iter().any(ready).then_some(()))
    })
    .await?;
    let waits = stage.instance("slow", "waits", |_| true).await?;
    assert_eq!(
        waits.phase(),
        "Scheduling",
        "it is not handed over without a model"
    );
    stage.start_webhook().await?;
    let runs = stage.runs("slow").await?;
    assert_eq!(runs.uid(), scheduling.uid(), "it is the same instance");
    assert!(
        model(&runs).starts_with("Icelake-Server"),
        "{}",
        model(&runs)
    );
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_created_before_registration_are_repaired() -> anyhow::Result<()> {
    let stage = Stage::without_webhook(FLEET).await?;
    stage.policy(json!({})).await?;
    stage.machine("early", best_match(), "ice").await?;
    let stuck = stage
        .instance("early", "has a pod", |it| it.phase() == "Scheduling")
        .await?;
    let says = |it: &serde_json::Value, kind: &str, status: &str| {
        let conditions = it["conditions"].as_array().cloned().unwrap_or_default();
        let mut conditions = conditions.into_iter();
        conditions.any(|it| it["type"] == kind && it["status"] == status)
    };
    stage
        .status("nobody checks", |it| says(it, "AdmissionReady", "False"))
        .await?;
    let metrics = stage.metrics();
    let mut lines = metrics.lines();
    let registered = lines.find(|line| line.starts_with("medley_cpu_admission_registered"));
    assert!(
        registered.is_some_and(|line| line.ends_with(" 0.0")),
        "{metrics}"
    );
    stage.start_webhook().await?;
    stage.wait_for_event("early", "LauncherRemoved").await?;
    let again = stage
        .instance("early", "is another and runs", |it| {
            it.uid() != stuck.uid() && it.phase() == "Running"
        })
        .await?;
    assert!(
        model(&again).starts_with("Icelake-Server"),
        "{}",
        model(&again)
    );
    stage
        .status("somebody checks", |it| says(it, "AdmissionReady", "True"))
        .await?;
    let repaired = "medley_cpu_repairs_total{what=\"launcher\"} 1";
    assert!(stage.metrics().contains(repaired), "{}", stage.metrics());
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_or_edited_registration_is_restored() -> anyhow::Result<()> {
    let stage = Stage::new(FLEET).await?;
    let name = api::cpu::WEBHOOK;
    let registrations: Api<MutatingWebhookConfiguration> = Api::all(stage.cluster.client());
    let before = registrations.get(name).await?.webhooks;
    let restored = async |what: &str| {
        wait_until(what, WAIT_TIMEOUT, async || {
            let found = registrations.get_opt(name).await?;
            Ok(found.filter(|it| it.webhooks == before).map(|_| ()))
        })
        .await
    };
    registrations.delete(name, &DeleteParams::default()).await?;
    restored("the deleted registration is back").await?;
    let edited = json!([
        { "op": "remove", "path": "/webhooks/1/matchConditions" },
        { "op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore" },
        { "op": "replace", "path": "/webhooks/2/namespaceSelector", "value": { "matchLabels": { "a": "b" } } },
    ]);
    let edited = Patch::Json::<()>(serde_json::from_value(edited)?);
    let params = PatchParams::default();
    registrations.patch(name, &params, &edited).await?;
    assert_ne!(registrations.get(name).await?.webhooks, before);
    restored("the edited registration is back").await?;
    stage.end().await;
    Ok(())
}

/// Only VMs that leave the choice to Medley are sent to the webhook.
#[tokio::test(flavor = "multi_thread")]
async fn other_vms_do_not_wait_for_a_hung_webhook() -> anyhow::Result<()> {
    let stage = Stage::new(FLEET).await?;
    let name = api::cpu::WEBHOOK;
    stage.stop_webhook().await;
    // With `Fail` for all, a request that is sent is rejected.
    let registrations: Api<MutatingWebhookConfiguration> = Api::all(stage.cluster.client());
    let mut registration = registrations.get(name).await?;
    for webhook in registration.webhooks.iter_mut().flatten() {
        webhook.failure_policy = Some("Fail".to_owned());
    }
    let params = PostParams::default();
    registrations.replace(name, &params, &registration).await?;
    let machines = stage.all::<VirtualMachine>();
    let asking = serde_json::from_value(machine("asks", &best_match(), "ice"))?;
    wait_until("the API server uses it", WAIT_TIMEOUT, async || {
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let created = machines.create(&dry_run, &asking).await;
        Ok(created.is_err().then_some(()))
    })
    .await?;
    for (name, cpu) in [
        ("plain", json!({ "cores": 1 })),
        ("named", json!({ "model": "Icelake-Server-noTSX" })),
    ] {
        stage.machine(name, cpu, "ice").await?;
        stage.runs(name).await?;
    }
    stage.migrate("named").await?;
    stage.end().await;
    Ok(())
}
