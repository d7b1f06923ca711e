//! Matching of volumes to claims.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use serde_json::{Value, json};

use super::{best, mismatch};

fn merged(mut object: Value, patch: &Value) -> Value {
    fn merge(into: &mut Value, from: &Value) {
        match (into, from) {
            (Value::Object(into), Value::Object(from)) => {
                for (key, value) in from {
                    merge(into.entry(key.clone()).or_insert(Value::Null), value);
                }
            }
            (into, from) => *into = from.clone(),
        }
    }
    merge(&mut object, patch);
    object
}

fn claim(patch: &Value) -> PersistentVolumeClaim {
    let object = json!({
        "metadata": { "name": "data", "namespace": "shop", "uid": "c1" },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "resources": { "requests": { "storage": "5Gi" } },
        },
    });
    serde_json::from_value(merged(object, patch)).unwrap()
}

fn volume(name: &str, size: &str, patch: &Value) -> Arc<PersistentVolume> {
    let object = json!({
        "metadata": { "name": name, "uid": name },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "capacity": { "storage": size },
        },
        "status": { "phase": "Available" },
    });
    Arc::new(serde_json::from_value(merged(object, patch)).unwrap())
}

fn chosen(claim: &PersistentVolumeClaim, volumes: &[Arc<PersistentVolume>]) -> Option<String> {
    best(claim, volumes, false, None)?.metadata.name.clone()
}

#[test]
fn smallest_sufficient_volume_is_chosen() {
    let nothing = json!({});
    let volumes = [
        volume("large", "50Gi", &nothing),
        volume("fitting", "6Gi", &nothing),
        volume("small", "4Gi", &nothing),
    ];
    assert_eq!(
        chosen(&claim(&nothing), &volumes).as_deref(),
        Some("fitting")
    );
}

#[test]
fn volume_with_fewest_extra_access_modes_is_preferred() {
    let both = json!({ "spec": { "accessModes": ["ReadWriteOnce", "ReadOnlyMany"] } });
    let volumes = [
        volume("versatile", "5Gi", &both),
        volume("plain", "9Gi", &json!({})),
    ];
    assert_eq!(
        chosen(&claim(&json!({})), &volumes).as_deref(),
        Some("plain")
    );
}

#[rstest::rstest]
#[case::too_small("4Gi", json!({}))]
#[case::another_class("5Gi", json!({ "spec": { "storageClassName": "slow" } }))]
#[case::another_mode("5Gi", json!({ "spec": { "volumeMode": "Block" } }))]
#[case::another_access("5Gi", json!({ "spec": { "accessModes": ["ReadOnlyMany"] } }))]
#[case::other_attributes("5Gi", json!({ "spec": { "volumeAttributesClassName": "gold" } }))]
#[case::to_be_deleted("5Gi", json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }))]
#[case::not_yet_free("5Gi", json!({ "status": { "phase": "Released" } }))]
#[case::meant_for_another("5Gi", json!({ "spec": { "claimRef": { "namespace": "shop", "name": "other" } } }))]
#[case::meant_for_a_namesake("5Gi", json!({ "spec": { "claimRef": { "namespace": "shop", "name": "data", "uid": "c0" } } }))]
fn mismatching_volumes_are_not_chosen(#[case] size: &str, #[case] patch: Value) {
    let volumes = [volume("v", size, &patch)];
    assert_eq!(chosen(&claim(&json!({})), &volumes), None);
}

#[test]
fn selector_restricts_volumes() {
    let claim = claim(&json!({ "spec": { "selector": { "matchLabels": { "disk": "ssd" } } } }));
    let volumes = [
        volume(
            "hdd",
            "5Gi",
            &json!({ "metadata": { "labels": { "disk": "hdd" } } }),
        ),
        volume(
            "ssd",
            "9Gi",
            &json!({ "metadata": { "labels": { "disk": "ssd" } } }),
        ),
    ];
    assert_eq!(chosen(&claim, &volumes).as_deref(), Some("ssd"));
}

#[test]
fn reserved_volume_is_chosen_regardless_of_class() {
    let meant = json!({ "spec": { "storageClassName": "", "claimRef": { "namespace": "shop", "name": "data" } } });
    let volumes = [
        volume("free", "5Gi", &json!({})),
        volume("meant", "50Gi", &meant),
    ];
    assert_eq!(
        chosen(&claim(&json!({})), &volumes).as_deref(),
        Some("meant")
    );
}

#[test]
fn waiting_claim_gets_a_volume_accessible_from_its_node() {
    let on = |zone: &str| {
        let term =
            json!({ "matchExpressions": [{ "key": "zone", "operator": "In", "values": [zone] }] });
        json!({ "spec": { "nodeAffinity": { "required": { "nodeSelectorTerms": [term] } } } })
    };
    let volumes = [volume("a", "5Gi", &on("a")), volume("b", "9Gi", &on("b"))];
    let node: Node =
        serde_json::from_value(json!({ "metadata": { "labels": { "zone": "b" } } })).unwrap();
    let claim = claim(&json!({}));
    assert!(best(&claim, &volumes, true, None).is_none());
    let found = best(&claim, &volumes, true, Some(&node)).unwrap();
    assert_eq!(found.metadata.name.as_deref(), Some("b"));
}

#[rstest::rstest]
#[case::fits("5Gi", json!({}), None)]
#[case::too_small("1Gi", json!({}), Some("requested PV is too small"))]
#[case::another_class("5Gi", json!({ "spec": { "storageClassName": "slow" } }), Some("storageClassName does not match"))]
#[case::another_mode("5Gi", json!({ "spec": { "volumeMode": "Block" } }), Some("incompatible volumeMode"))]
#[case::another_access("5Gi", json!({ "spec": { "accessModes": ["ReadOnlyMany"] } }), Some("incompatible accessMode"))]
#[case::to_be_deleted("5Gi", json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }), Some("the volume is marked for deletion \"v\""))]
fn mismatch_is_reported(#[case] size: &str, #[case] patch: Value, #[case] expected: Option<&str>) {
    let found = mismatch(&volume("v", size, &patch), &claim(&json!({})));
    assert_eq!(found.as_deref(), expected);
}
