//! Admission of instances.

use api::kubevirt::VirtualMachineInstanceSpec;
use rstest::rstest;
use serde_json::json;

use super::{ModelChoice, kept_status, unsupported_model};

#[rstest]
#[case("arm64", "best-match-model", true)]
#[case("arm64", "host-passthrough", false)]
#[case("amd64", "best-match-model", false)]
fn best_match_is_unsupported_on_arm64(
    #[case] architecture: &str,
    #[case] model: &str,
    #[case] unsupported: bool,
) {
    let spec = json!({ "architecture": architecture, "domain": { "cpu": { "model": model } } });
    let spec: VirtualMachineInstanceSpec = serde_json::from_value(spec).unwrap();
    assert_eq!(unsupported_model(&spec).is_some(), unsupported);
}

#[test]
fn earlier_choice_stays_after_the_hand_over() {
    let choice = ModelChoice {
        model: "Skylake-Server".to_owned(),
        node: "a".to_owned(),
        reason: "NewestModel".to_owned(),
    };
    let patch = choice.patch(&json!({ "metadata": { "annotations": { "kept": "yes" } } }));
    let annotations = &patch[2]["value"];
    assert_eq!(annotations["kept"], "yes");
    let with_phase = |phase: &str| {
        let metadata = json!({ "annotations": annotations });
        ModelChoice::earlier(&json!({ "metadata": metadata, "status": { "phase": phase } }))
    };
    assert_eq!(with_phase("Running"), Some(choice));
    assert_eq!(with_phase("Scheduling"), None, "a copy of another instance");
}

#[rstest]
#[case::dropped(json!({ "prefferedModel": "EPYC" }), json!({ "phase": "Running" }), true)]
#[case::kept(json!({ "prefferedModel": "EPYC" }), json!({ "prefferedModel": "EPYC" }), false)]
#[case::changed(json!({ "prefferedModel": "EPYC" }), json!({ "prefferedModel": "EPYC-Rome" }), false)]
#[case::never_there(json!({ "phase": "Running" }), json!({ "phase": "Running" }), false)]
#[case::no_status(json!({ "prefferedModel": "EPYC" }), json!(null), false)]
fn dropped_preferred_model_is_restored(
    #[case] old: serde_json::Value,
    #[case] new: serde_json::Value,
    #[case] restored: bool,
) {
    let patch = kept_status(&json!({ "status": old }), &json!({ "status": new }));
    let expected = json!({ "op": "add", "path": "/status/prefferedModel", "value": "EPYC" });
    let expected = if restored { vec![expected] } else { Vec::new() };
    assert_eq!(patch, expected);
}
