use std::collections::BTreeMap;
use std::sync::Arc;

use rstest::rstest;
use serde_json::{Value, json};

use super::ServedSchema;
use crate::snapshot::Kind;

/// The shape of a HyperConverged: a default of an object, and one of a field in it.
fn schema() -> ServedSchema {
    let percentage = json!({ "type": "integer" });
    let schema = json!({ "type": "object", "properties": { "spec": {
        "type": "object",
        "properties": {
            "higherWorkloadDensity": {
                "type": "object", "default": { "memoryOvercommitPercentage": 100 },
                "properties": { "memoryOvercommitPercentage": percentage },
            },
            "mode": { "type": "string", "default": "Predictive" },
            "open": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        },
    } } });
    let definition = json!({
        "metadata": { "name": "things.example.com" },
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": { "kind": "Thing", "plural": "things" },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
            }],
        },
    });
    ServedSchema::of(Some(&Kind {
        version: "v1".to_owned(),
        plural: "things".to_owned(),
        definition: Some(Arc::new(serde_json::from_value(definition).unwrap())),
        objects: BTreeMap::new(),
    }))
}

const OVERCOMMIT: &str = "spec.higherWorkloadDensity.memoryOvercommitPercentage";

#[rstest]
#[case::of_the_field(json!({ "mode": "Predictive" }), "spec.mode", true)]
#[case::chosen(json!({ "mode": "Automatic" }), "spec.mode", false)]
#[case::absent(json!({}), "spec.mode", false)]
#[case::of_the_object_above(
    json!({ "higherWorkloadDensity": { "memoryOvercommitPercentage": 100 } }), OVERCOMMIT, true
)]
#[case::chosen_below(
    json!({ "higherWorkloadDensity": { "memoryOvercommitPercentage": 120 } }), OVERCOMMIT, false
)]
#[case::without_a_default(json!({ "open": { "a": 1 } }), "spec.open.a", false)]
fn default_is_recognised(#[case] spec: Value, #[case] path: &str, #[case] expected: bool) {
    assert_eq!(
        schema().is_default(&json!({ "spec": spec }), path),
        expected
    );
}

#[test]
fn undeclared_fields_are_pruned() {
    let values = BTreeMap::from([
        ("spec.mode".to_owned(), json!("Automatic")),
        ("spec.open".to_owned(), json!({ "anything": 1 })),
        ("spec.old".to_owned(), json!(1)),
        (
            "spec.higherWorkloadDensity".to_owned(),
            json!({ "memoryOvercommitPercentage": 150, "factor": 2 }),
        ),
    ]);
    let pruned: Vec<_> = schema().pruned(&values).into_iter().collect();
    assert_eq!(pruned, ["spec.higherWorkloadDensity.factor", "spec.old"]);
    assert!(ServedSchema::of(None).pruned(&values).is_empty());
}
