use api::kubevirt::KubeVirtSpec;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn settings(configuration: Value) -> Settings {
    let spec = KubeVirtSpec {
        configuration: serde_json::from_value(configuration).unwrap(),
        ..KubeVirtSpec::default()
    };
    let kubevirt = KubeVirt::new("kubevirt", spec);
    Settings::new(None, Some(&kubevirt))
}

#[test]
fn without_objects_the_defaults_count() {
    assert_eq!(Settings::new(None, None), Settings::default());
    assert_eq!(settings(json!({})), Settings::default());
}

#[test]
fn settings_come_from_kubevirt_configuration() {
    let effective = settings(json!({
        "obsoleteCPUModels": { "Haswell": false },
        "developerConfiguration": { "nodeSelectors": { "zone": "a" } },
    }));
    assert!(effective.policy.obsolete.contains("Haswell"));
    assert!(!effective.policy.obsolete.contains("Conroe"));
    assert_eq!(effective.node_selector["zone"], "a");
    let spec = serde_json::from_value(json!({ "minimalLaunchYear": 1 })).unwrap();
    assert_eq!(Settings::new(Some(&spec), None).complaints.len(), 1);
}

#[rstest]
#[case(None, None, None, "host-model")]
#[case(Some("best-match-model"), None, None, "best-match-model")]
#[case(Some("best-match-model"), Some(""), None, "best-match-model")]
#[case(Some("best-match-model"), Some("EPYC"), None, "EPYC")]
#[case(Some("best-match-model"), None, Some("arm64"), "host-passthrough")]
#[case(
    Some("Haswell"),
    Some("best-match-model"),
    Some("amd64"),
    "best-match-model"
)]
fn own_model_wins_over_cluster_default(
    #[case] default: Option<&str>,
    #[case] model: Option<&str>,
    #[case] architecture: Option<&str>,
    #[case] expected: &str,
) {
    let effective = settings(json!({ "cpuModel": default }));
    assert_eq!(effective.requested(model, architecture).as_str(), expected);
    let asks = effective.asks_for_best_match(model, architecture);
    assert_eq!(asks, expected == "best-match-model");
}
