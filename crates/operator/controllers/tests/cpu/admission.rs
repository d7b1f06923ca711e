//! Admission responses for virtual machines, and the effect of KubeVirt's settings.

use cpu_models::names::REQUESTED_MODEL_ANNOTATION;
use http::{Method, Request};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::stage::{POOL, Stage, best_match, machine, model};

const FLEET: &str = "
pools:
  - {name: ice, arch: amd64, count: 2, cpu: {generation: icelake}}
  - {name: milan, arch: amd64, cpu: {generation: milan}}
  - {name: z, arch: s390x, count: 2, cpu: {generation: z16}}
";

impl Stage {
    /// Status code, body and warnings of creating a virtual machine.
    async fn make(&self, machine: &Value) -> anyhow::Result<(u16, Value, Vec<String>)> {
        let uri = format!(
            "/apis/kubevirt.io/v1/namespaces/{}/virtualmachines?dryRun=All",
            self.namespace
        );
        let request = Request::builder()
            .method(Method::POST)
            .uri(uri)
            .header("content-type", "application/json")
            .body(machine.to_string().into_bytes())?;
        let answer = self.cluster.request(request).await?;
        let warnings = answer.headers().get_all("warning").iter();
        let warnings = warnings.map(|it| String::from_utf8_lossy(it.as_bytes()).into_owned());
        let warnings = warnings.collect();
        let code = answer.status().as_u16();
        Ok((code, serde_json::from_slice(answer.body())?, warnings))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unfit_models_cause_admission_warnings() -> anyhow::Result<()> {
    let stage = Stage::new(FLEET).await?;
    let (code, _, warnings) = stage.make(&machine("fine", &best_match(), "ice")).await?;
    assert_eq!((code, warnings), (201, Vec::new()));

    // No model fits a single node of a vendor.
    let mut alone = machine("alone", &best_match(), "milan");
    alone["spec"]["template"]["spec"]["nodeSelector"] = json!({ POOL: "milan" });
    let (code, _, warnings) = stage.make(&alone).await?;
    assert_eq!(code, 201);
    let warned = warnings
        .iter()
        .any(|text| text.contains("no CPU model can be chosen"));
    assert!(warned, "{warnings:?}");

    let mut arm = machine("arm", &best_match(), "ice");
    arm["spec"]["template"]["spec"]["architecture"] = json!("arm64");
    let (code, body, _) = stage.make(&arm).await?;
    assert_eq!(code, 422, "{body}");
    let message = body["message"].as_str().unwrap_or_default();
    let expected = "currently, host-passthrough is the only model supported on Arm64";
    assert!(message.contains(expected), "{message}");
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn kubevirt_default_model_leaves_choice_to_medley() -> anyhow::Result<()> {
    let stage = Stage::new(FLEET).await?;
    stage
        .configure(json!({ "cpuModel": "best-match-model" }))
        .await?;
    stage.machine("plain", json!({ "cores": 1 }), "ice").await?;
    let plain = stage.runs("plain").await?;
    assert!(
        model(&plain).starts_with("Icelake-Server"),
        "{}",
        model(&plain)
    );
    assert_eq!(
        plain.annotations()[REQUESTED_MODEL_ANNOTATION],
        "best-match-model"
    );
    // An explicit model is kept.
    stage
        .machine("named", json!({ "model": "Nehalem" }), "ice")
        .await?;
    let named = stage.runs("named").await?;
    assert_eq!(model(&named), "Nehalem");
    assert!(!named.annotations().contains_key(REQUESTED_MODEL_ANNOTATION));
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn s390x_models_are_chosen() -> anyhow::Result<()> {
    let stage = Stage::new(FLEET).await?;
    let mut big = machine("big", &best_match(), "z");
    big["spec"]["template"]["spec"]["architecture"] = json!("s390x");
    let machines = stage.all::<api::kubevirt::VirtualMachine>();
    let params = kube::api::PostParams::default();
    machines
        .create(&params, &serde_json::from_value(big)?)
        .await?;
    let big = stage.runs("big").await?;
    assert!(model(&big).starts_with("gen16"), "{}", model(&big));
    assert_eq!(model(&stage.migrate("big").await?), model(&big));
    stage.end().await;
    Ok(())
}
