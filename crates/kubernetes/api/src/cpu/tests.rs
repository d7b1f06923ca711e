use serde_json::{Value, json};

use super::*;
use crate::definition::checks;

/// An object with every field of the CRD.
fn full() -> Value {
    json!({
        "apiVersion": "medley.dev/v1alpha1",
        "kind": "CpuModelPolicy",
        "metadata": { "name": "default" },
        "spec": {
            "minimalLaunchYear": 2013,
            "threshold": { "support": "25%", "minimum": 3, "maximum": 10 },
            "nodes": { "unschedulable": "Count", "notReady": "Count", "tainted": "Count" },
            "bias": "Widest", "foreignVendors": "LastResort",
            "models": [{ "name": "EPYC-Venice", "launchYear": 2026, "vendor": "AMD", "generation": 110 }],
            "excludedModels": ["KnightsMill"],
        },
        "status": {
            "observedGeneration": 1,
            "conditions": [{
                "type": "Accepted", "status": "True", "reason": "Accepted", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
            }],
            "groups": [{
                "architecture": "amd64", "vendor": "AMD", "hostModel": "EPYC-Milan",
                "nodes": 3, "newestModel": "EPYC-Milan",
            }],
            "machines": { "resolved": 3, "hostModel": 1, "stale": 1, "stranded": 0 },
            "unknownModels": ["EPYC-Venice"],
        },
    })
}

#[test]
fn types_have_every_field_of_the_crd() {
    checks::has_the_fields_of_its_type::<CpuModelPolicy>(&definition(), &full());
}

#[test]
fn server_accepts_the_crd() {
    checks::is_accepted(&definition());
}

#[test]
fn an_empty_policy_is_the_default_one() {
    let read: CpuModelPolicySpec = serde_json::from_value(json!({})).unwrap();
    assert_eq!(read, CpuModelPolicySpec::default());
    assert_eq!(read.bias, Bias::Newest);
    assert_eq!(read.foreign_vendors, ForeignVendors::Exclude);
    assert_eq!(read.nodes.tainted, Counted::Ignore);
}

#[test]
fn a_threshold_is_a_number_or_a_share() {
    let read = |support: Value| -> Option<Support> {
        let threshold: Threshold = serde_json::from_value(json!({ "support": support })).unwrap();
        threshold.support
    };
    assert_eq!(read(json!(4)), Some(Support::Nodes(4)));
    assert_eq!(read(json!("25%")), Some(Support::Share("25%".to_owned())));
}
