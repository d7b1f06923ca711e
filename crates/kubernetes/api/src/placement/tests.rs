use serde_json::{Value, json};

use super::*;
use crate::definition::checks;

/// An object with every field of the CRD.
fn full() -> Value {
    let selector = json!({
        "matchLabels": { "team": "shop" },
        "matchExpressions": [{ "key": "tier", "operator": "In", "values": ["web"] }],
    });
    json!({
        "apiVersion": "medley.dev/v1alpha1",
        "kind": "PlacementPolicy",
        "metadata": { "name": "default" },
        "spec": {
            "priority": 5,
            "namespaceSelector": selector, "podSelector": selector,
            "ignoredOwners": ["DaemonSet"],
            "mode": "Audit", "onMiss": "Sync", "onNoMatch": "Reject",
            "weights": [{ "architecture": "arm64", "weight": 80 }],
            "fallbackArchitecture": "amd64", "operatingSystem": "linux",
            "toleratedTaints": ["kubernetes.io/arch"],
            "emulation": { "runtimeClasses": ["emulated"] },
            "pullSecrets": { "mode": "Named", "named": [{ "namespace": "vault", "name": "inspect" }] },
            "timeouts": { "gateSeconds": 30, "syncMilliseconds": 500 },
            "failurePolicy": "Fail",
            "operatorMode": "Assist",
            "exemptNamespaces": ["calico-system", "cattle-*"],
        },
        "status": {
            "observedGeneration": 1,
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "Placing", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
            }],
            "pods": { "gated": 1, "held": 2 },
        },
    })
}

#[test]
fn types_have_every_field_of_the_crd() {
    checks::has_the_fields_of_its_type::<PlacementPolicy>(&definition(), &full());
}

#[test]
fn server_accepts_the_crd() {
    checks::is_accepted(&definition());
}

#[test]
fn an_empty_policy_is_the_default_one() {
    let read: PlacementPolicySpec = serde_json::from_value(json!({})).unwrap();
    assert_eq!(read, PlacementPolicySpec::default());
    assert_eq!(read.mode, Mode::Place);
    assert_eq!(read.on_miss, OnMiss::Gate);
    assert_eq!(read.on_no_match, OnNoMatch::Warn);
}
