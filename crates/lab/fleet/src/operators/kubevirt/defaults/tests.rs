use rstest::rstest;
use serde_json::{Value, json};

use super::{fill, refusal};
use crate::operators::kubevirt::fixtures::config;

#[rstest]
#[case::nothing(json!({}), json!({}), "host-model")]
#[case::the_cluster(json!({}), json!({ "cpuModel": "best-match-model" }), "best-match-model")]
#[case::empty(json!({ "domain": { "cpu": { "cores": 2, "model": "" } } }), json!({ "cpuModel": "Haswell" }), "Haswell")]
#[case::own(json!({ "domain": { "cpu": { "model": "EPYC" } } }), json!({ "cpuModel": "Haswell" }), "EPYC")]
#[case::arm(json!({ "architecture": "arm64" }), json!({ "cpuModel": "Haswell" }), "host-passthrough")]
#[case::mainframe(json!({ "architecture": "s390x" }), json!({ "cpuModel": "gen15a-base" }), "gen15a-base")]
fn instance_gets_a_default_model(
    #[case] mut spec: Value,
    #[case] configuration: Value,
    #[case] model: &str,
) {
    let cores = spec.pointer("/domain/cpu/cores").cloned();
    let config = config(&configuration);
    fill(&mut spec, &config);
    assert_eq!(spec["domain"]["cpu"]["model"], model);
    assert_eq!(spec.pointer("/domain/cpu/cores").cloned(), cores);
    let once = spec.clone();
    fill(&mut spec, &config);
    assert_eq!(spec, once, "there is nothing more to fill in");
    assert_eq!(refusal(&spec), None);
}

#[test]
fn instance_gets_default_architecture_and_eviction_strategy() {
    let mut spec = json!({});
    fill(
        &mut spec,
        &config(&json!({ "evictionStrategy": "LiveMigrate" })),
    );
    assert_eq!(spec["architecture"], "amd64");
    assert_eq!(spec["evictionStrategy"], "LiveMigrate");
}

#[rstest]
#[case(json!({ "architecture": "arm64", "domain": { "cpu": { "model": "host-model" } } }), Some("only model supported on Arm64"))]
#[case(json!({ "architecture": "arm64", "domain": { "cpu": { "model": "best-match-model" } } }), Some("spec.domain.cpu.model"))]
#[case(json!({ "architecture": "arm64", "domain": { "cpu": { "model": "host-passthrough" } } }), None)]
// An unknown model is admitted, but no node matches it.
#[case(json!({ "architecture": "amd64", "domain": { "cpu": { "model": "Hasswell" } } }), None)]
#[case(json!({ "architecture": "amd64", "domain": { "cpu": { "features": [{ "name": "aes", "policy": "maybe" }] } } }), Some("CPU feature aes uses policy maybe that is not supported."))]
#[case(json!({ "architecture": "amd64", "domain": { "cpu": { "features": [{ "name": "aes" }, { "name": "avx", "policy": "forbid" }] } } }), None)]
fn invalid_instances_are_rejected_as_in_kubevirt(#[case] spec: Value, #[case] says: Option<&str>) {
    let refusal = refusal(&spec);
    assert_eq!(refusal.is_some(), says.is_some(), "{refusal:?}");
    if let (Some(refusal), Some(says)) = (refusal, says) {
        assert!(refusal.contains(says), "{refusal}");
    }
}
