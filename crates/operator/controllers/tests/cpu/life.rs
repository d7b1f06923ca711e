//! Life of a virtual machine: it starts, migrates there and back, and restarts on newer hardware.

use api::kubevirt::VirtualMachineInstance;
use cpu_models::names::{MODEL_LABEL, NODE_ANNOTATION, OBSOLETE_HOST_MODEL_LABEL, VENDOR_LABEL};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use testkit::wait_until;

use crate::stage::{Stage, WAIT_TIMEOUT, best_match, is_in, model};

/// Node selector of a pod.
fn selector(pod: &Pod) -> std::collections::BTreeMap<String, String> {
    let spec = pod.spec.clone().unwrap_or_default();
    spec.node_selector.unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn vm_migrates_back_and_restarts_on_newer_hardware() -> anyhow::Result<()> {
    let stage = Stage::new(
        "
pools:
  - {name: old, arch: amd64, count: 2, cpu: {generation: skylake}}
  - {name: new, arch: amd64, count: 3, cpu: {generation: icelake}}
",
    )
    .await?;
    stage.policy(json!({})).await?;
    let new = ["new-1", "new-2", "new-3"];
    stage.cordon(&new, true).await?;
    let cpu = json!({ "model": "best-match-model", "features": [{ "name": "avx2" }] });
    stage.machine("web", cpu, "old").await?;
    let first = stage.runs("web").await?;
    assert!(is_in(&first, "old"));
    assert!(
        model(&first).starts_with("Skylake-Server"),
        "{}",
        model(&first)
    );
    let status = first.status.clone().unwrap_or_default();
    assert_eq!(status.preffered_model, None, "a stock KubeVirt prunes it");
    let asked = selector(&stage.pod(&first).await?);
    assert!(
        !asked.keys().any(|key| key.starts_with(MODEL_LABEL)),
        "{asked:?}"
    );
    assert_eq!(
        asked["cpu-feature.node.kubevirt.io/avx2"], "true",
        "features stay"
    );

    // Migrate there and back.
    let there = stage.migrate("web").await?;
    let asked = selector(&stage.pod(&there).await?);
    assert_eq!(asked[&format!("{MODEL_LABEL}{}", model(&first))], "true");
    assert_eq!(asked[&format!("{VENDOR_LABEL}Intel")], "true");
    let back = stage.migrate("web").await?;
    assert_eq!(back.node_name(), first.node_name());
    for moved in [&there, &back] {
        assert_eq!(model(moved), model(&first));
        assert_eq!(
            moved.annotations()[NODE_ANNOTATION],
            first.annotations()[NODE_ANNOTATION]
        );
    }

    // Newer hardware joins: the model stays, and an event reports it as stale.
    stage.cordon(&new, false).await?;
    stage.wait_for_event("web", "CpuModelStale").await?;
    stage
        .status("one is stale", |it| it["machines"]["stale"] == 1)
        .await?;
    assert_eq!(model(&stage.runs("web").await?), model(&first));

    // A restart creates a new instance.
    stage.cordon(&["old-1", "old-2"], true).await?;
    stage.delete_instance("web").await?;
    let uid = first.uid();
    let again = stage
        .instance("web", "runs again", |it| {
            it.uid() != uid && it.phase() == "Running"
        })
        .await?;
    assert!(is_in(&again, "new"));
    assert!(
        model(&again).starts_with("Icelake-Server"),
        "{}",
        model(&again)
    );
    stage
        .status("none is stale", |it| it["machines"]["stale"] == 0)
        .await?;
    stage.end().await;
    Ok(())
}

/// Turin supports no recent model of its vendor: the virtual machine gets its host's model, and can still migrate.
#[tokio::test(flavor = "multi_thread")]
async fn vm_with_host_model_migrates_back() -> anyhow::Result<()> {
    let stage = Stage::new(
        "
pools:
  - {name: turin, arch: amd64, count: 2, cpu: {generation: turin}}
  - {name: milan, arch: amd64, cpu: {generation: milan}}
",
    )
    .await?;
    stage.policy(json!({ "minimalLaunchYear": 2015 })).await?;
    stage
        .status("it is read", |it| it["observedGeneration"] == 1)
        .await?;
    stage.machine("fast", best_match(), "turin").await?;
    let first = stage.runs("fast").await?;
    assert!(is_in(&first, "turin"));
    assert_eq!(model(&first), "host-model");
    // The first pod prefers other nodes; targets with `host-model` require them.
    let avoids = |pod: &Pod| json!(pod).to_string().contains(OBSOLETE_HOST_MODEL_LABEL);
    assert!(avoids(&stage.pod(&first).await?));
    let there = stage.migrate("fast").await?;
    let pod = stage.pod(&there).await?;
    let asked = selector(&pod);
    assert_eq!(
        asked["cpu-model-migration.node.kubevirt.io/EPYC-Turin"],
        "true"
    );
    assert!(avoids(&pod));
    let back = stage.migrate("fast").await?;
    assert_eq!(back.node_name(), first.node_name());
    let cpu = |pod: &Pod| {
        let asked = selector(pod).into_iter();
        let cpu = asked.filter(|(key, _)| key.starts_with("cpu-"));
        cpu.collect::<Vec<_>>()
    };
    assert_eq!(
        cpu(&stage.pod(&back).await?),
        cpu(&pod),
        "the model of the first node counts"
    );
    stage
        .status("one has the model of its host", |it| {
            it["machines"]["hostModel"] == 1
        })
        .await?;
    let kept = |it: &VirtualMachineInstance| it.annotations().get("medley.dev/cpu-model").cloned();
    assert_eq!(kept(&back).as_deref(), Some("host-model"));
    stage.end().await;
    Ok(())
}

/// A KubeVirt whose CRD has `status.prefferedModel`, as the proposal wants it.
#[tokio::test(flavor = "multi_thread")]
async fn preferred_model_survives_clients_that_do_not_know_it() -> anyhow::Result<()> {
    let stage = Stage::new(
        "
pools:
  - {name: ice, arch: amd64, count: 2, cpu: {generation: icelake}}
",
    )
    .await?;
    let crds: Api<CustomResourceDefinition> = Api::all(stage.cluster.client());
    let path =
        "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/prefferedModel";
    let field = json!([{ "op": "add", "path": path, "value": { "type": "string" } }]);
    let field = Patch::Json::<()>(serde_json::from_value(field)?);
    let params = PatchParams::default();
    crds.patch("virtualmachineinstances.kubevirt.io", &params, &field)
        .await?;
    // The API server uses a new schema a moment later.
    let running = wait_until("a VM has the field", WAIT_TIMEOUT, async || {
        let name = "web";
        stage.machine(name, best_match(), "ice").await?;
        let running = stage.runs(name).await?;
        let status = running.status.clone().unwrap_or_default();
        if status.preffered_model.is_none() {
            stage.delete_instance(name).await?;
        }
        Ok(status.preffered_model.is_some().then_some(running))
    })
    .await?;
    let preferred = |it: &VirtualMachineInstance| it.status.clone()?.preffered_model;
    assert_eq!(preferred(&running).as_deref(), Some(model(&running)));
    let instances = stage.all::<VirtualMachineInstance>();
    wait_until(
        "it was replaced without the field",
        WAIT_TIMEOUT,
        async || {
            let mut current = instances.get("web").await?;
            current
                .annotations_mut()
                .insert("a".to_owned(), "b".to_owned());
            current.status.get_or_insert_default().preffered_model = None;
            let replaced = instances
                .replace("web", &PostParams::default(), &current)
                .await;
            // A conflict with the stand-in for KubeVirt is retried.
            let Ok(replaced) = replaced else {
                return Ok(None);
            };
            assert_eq!(preferred(&replaced).as_deref(), Some(model(&running)));
            Ok(Some(()))
        },
    )
    .await?;
    let moved = stage.migrate("web").await?;
    assert_eq!(preferred(&moved).as_deref(), Some(model(&running)));
    stage.end().await;
    Ok(())
}
