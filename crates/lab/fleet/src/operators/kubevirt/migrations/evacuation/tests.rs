use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use rstest::rstest;
use serde_json::{Value, json};

use super::{failures, is_to_leave};
use crate::operators::kubevirt::fixtures::object;

fn node(taints: &Value) -> Node {
    serde_json::from_value(json!({ "metadata": {}, "spec": { "taints": taints } })).expect("a node")
}

#[rstest]
#[case("LiveMigrate", "Running", json!([{ "key": "kubevirt.io/drain", "effect": "NoSchedule" }]), "", true)]
#[case("LiveMigrateIfPossible", "Running", json!([{ "key": "kubevirt.io/drain", "effect": "NoSchedule" }]), "", true)]
#[case("None", "Running", json!([{ "key": "kubevirt.io/drain", "effect": "NoSchedule" }]), "", false)]
#[case("LiveMigrate", "Scheduled", json!([{ "key": "kubevirt.io/drain", "effect": "NoSchedule" }]), "", false)]
#[case("LiveMigrate", "Running", json!([{ "key": "gpu", "effect": "NoSchedule" }]), "", false)]
#[case("LiveMigrate", "Running", json!([{ "key": "kubevirt.io/drain", "effect": "PreferNoSchedule" }]), "", false)]
#[case("LiveMigrate", "Running", json!([]), "a", true)]
// It is on another node already.
#[case("LiveMigrate", "Running", json!([]), "b", false)]
fn migratable_instances_leave_drained_nodes(
    #[case] strategy: &str,
    #[case] phase: &str,
    #[case] taints: Value,
    #[case] asked: &str,
    #[case] expected: bool,
) {
    let instance = object(json!({
        "metadata": {},
        "spec": { "evictionStrategy": strategy },
        "status": { "phase": phase, "nodeName": "a", "evacuationNodeName": asked },
    }));
    assert_eq!(
        is_to_leave(&instance, Some(&node(&taints)), "kubevirt.io/drain"),
        expected
    );
}

#[test]
fn backoff_doubles_with_consecutive_failures() {
    let evacuation = |number: u32, phase: &str| {
        Arc::new(object(json!({
            "metadata": {
                "uid": format!("{number}"),
                "creationTimestamp": format!("2026-01-01T00:00:0{number}Z"),
                "annotations": { "kubevirt.io/evacuationMigration": "a" },
            },
            "status": { "phase": phase },
        })))
    };
    assert_eq!(failures(&[]), None);
    assert_eq!(failures(&[evacuation(1, "Succeeded")]), None);
    let row = [
        evacuation(3, "Failed"),
        evacuation(1, "Failed"),
        evacuation(2, "Succeeded"),
    ];
    assert_eq!(failures(&row), Some(("3".into(), Duration::from_secs(20))));
    let row = [
        evacuation(1, "Failed"),
        evacuation(2, "Failed"),
        evacuation(3, "Failed"),
    ];
    assert_eq!(failures(&row), Some(("3".into(), Duration::from_secs(80))));
    // Migrations created by users do not count.
    let own = Arc::new(object(
        json!({ "metadata": { "uid": "9" }, "status": { "phase": "Failed" } }),
    ));
    assert_eq!(failures(&[own]), None);
}
