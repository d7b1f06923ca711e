use std::collections::BTreeMap;
use std::sync::Arc;

use api::advisor::{Deviation, DeviationClass, Item, Operation, TargetRef};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::{attribute, describe, deviations, fit, losses, unexplained};
use crate::mutators::Mutator;
use crate::plan;
use crate::snapshot::Kind;

/// A kind whose spec has two numbers, one of them defaulted, a map, and a defaulted object.
fn kind() -> Kind {
    let number = json!({ "type": "integer" });
    let schema = json!({
        "type": "object",
        "properties": { "spec": { "type": "object", "properties": {
            "interval": { "type": "integer", "default": 3600 },
            "total": number,
            "nullable": { "type": "integer", "default": 7 },
            "limits": { "type": "object", "properties": { "node": number, "total": number } },
            "density": {
                "type": "object", "default": { "percentage": 100 },
                "properties": { "percentage": number },
            },
        } } },
    });
    let definition = json!({
        "metadata": { "name": "things.example.com" },
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": { "kind": "Thing", "plural": "things" },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
            }],
        },
    });
    Kind {
        version: "v1".to_owned(),
        plural: "things".to_owned(),
        definition: Some(Arc::new(serde_json::from_value(definition).unwrap())),
        objects: BTreeMap::new(),
    }
}

fn object(spec: &Value) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Thing", "metadata": { "name": "x" }, "spec": spec,
    })
}

fn item(spec: &Value) -> Item {
    let fields = spec.as_object().unwrap().keys();
    Item {
        name: "item".to_owned(),
        target_ref: TargetRef {
            api_version: "example.com/v1".to_owned(),
            kind: "Thing".to_owned(),
            name: "x".to_owned(),
            namespace: None,
        },
        managed_fields: fields.map(|field| format!("spec.{field}")).collect(),
        desired_state: Some(object(spec)),
        ..Item::default()
    }
}

fn one(path: &str, class: DeviationClass, wanted: Value, kept: Value) -> Deviation {
    let present = |value: Value| Some(value).filter(|value| *value != "absent");
    Deviation {
        path: path.to_owned(),
        class,
        wanted: present(wanted),
        kept: present(kept),
        by: None,
    }
}

/// What is sent, what was there before, what is kept, and how that deviates.
#[rstest]
#[case::kept(json!({ "total": 5 }), None, json!({ "total": 5 }), vec![])]
#[case::pruned(
    json!({ "unknown": 1 }), None, json!({}),
    vec![one("spec.unknown", DeviationClass::PrunedBySchema, json!(1), json!("absent"))]
)]
#[case::pruned_below(
    json!({ "limits": { "total": 5, "zone": 2 } }), None, json!({ "limits": { "total": 5 } }),
    vec![one("spec.limits.zone", DeviationClass::PrunedBySchema, json!(2), json!("absent"))]
)]
#[case::changed(
    json!({ "total": 5 }), None, json!({ "total": 9 }),
    vec![one("spec.total", DeviationClass::ChangedByAdmission, json!(5), json!(9))]
)]
#[case::removed_although_declared(
    json!({ "total": 5 }), None, json!({}),
    vec![one("spec.total", DeviationClass::ChangedByAdmission, json!(5), json!("absent"))]
)]
#[case::defaulted(
    json!({ "total": 5 }), None, json!({ "total": 5, "interval": 3600 }),
    vec![one("spec.interval", DeviationClass::Defaulted, json!("absent"), json!(3600))]
)]
#[case::defaulted_object(
    json!({ "total": 5 }), None, json!({ "total": 5, "density": { "percentage": 100 } }),
    vec![one("spec.density", DeviationClass::Defaulted, json!("absent"), json!({ "percentage": 100 }))]
)]
#[case::default_replaces_null(
    json!({ "nullable": null }), None, json!({ "nullable": 7 }),
    vec![one("spec.nullable", DeviationClass::Defaulted, json!(null), json!(7))]
)]
#[case::added_by_admission(
    json!({ "total": 5 }), None, json!({ "total": 5, "interval": 60 }),
    vec![one("spec.interval", DeviationClass::ChangedByAdmission, json!("absent"), json!(60))]
)]
#[case::field_of_another_manager(
    json!({ "total": 5 }), Some(json!({ "interval": 60 })), json!({ "total": 5, "interval": 60 }), vec![]
)]
#[case::below_a_map_of_another_manager(
    json!({ "total": 5 }), Some(json!({ "limits": { "node": 1 } })),
    json!({ "total": 5, "limits": { "node": 1, "total": 3 } }),
    vec![one("spec.limits.total", DeviationClass::ChangedByAdmission, json!("absent"), json!(3))]
)]
fn deviation_has_its_class(
    #[case] sent: Value,
    #[case] before: Option<Value>,
    #[case] kept: Value,
    #[case] expected: Vec<Deviation>,
) {
    let before = before.map(|spec| object(&spec));
    let found = deviations(&item(&sent), before.as_ref(), &object(&kept), Some(&kind()));
    assert_eq!(found, expected);
}

#[test]
fn restored_item_has_no_deviations() {
    let item = Item {
        operation: Operation::Restore,
        ..item(&json!({ "total": 5 }))
    };
    assert_eq!(deviations(&item, None, &object(&json!({})), None), []);
}

/// A kind without a readable schema prunes and defaults nothing that is known.
#[test]
fn without_a_schema_admission_is_the_cause() {
    let found = deviations(
        &item(&json!({ "unknown": 1 })),
        None,
        &object(&json!({})),
        None,
    );
    assert_eq!(found[0].class, DeviationClass::ChangedByAdmission);
}

#[test]
fn only_admission_is_attributed() {
    let sent = json!({ "total": 5, "unknown": 1 });
    let mut found = deviations(
        &item(&sent),
        None,
        &object(&json!({ "total": 9, "interval": 3600 })),
        Some(&kind()),
    );
    attribute(&mut found, &[]);
    assert!(found.iter().all(|one| one.by.is_none()));
    let named = |name: &str| Mutator {
        name: name.to_owned(),
    };
    attribute(
        &mut found,
        &[named("MutatingAdmissionPolicy a"), named("webhook b")],
    );
    let texts: Vec<_> = found.iter().map(describe).collect();
    assert_eq!(
        texts,
        [
            "spec.total is 5: changed by admission (MutatingAdmissionPolicy a or webhook b) to 9",
            "spec.unknown is 1: pruned by the schema",
            "spec.interval is not set: defaulted to 3600",
        ]
    );
}

#[test]
fn deviation_explains_only_the_kept_value() {
    let item = item(&json!({ "total": 5 }));
    let wanted = plan::wanted_values(&item);
    let kept = object(&json!({ "total": 9 }));
    let known = losses(&deviations(&item, None, &kept, Some(&kind())));
    let differs = |spec: Value| unexplained(&wanted, &object(&spec), &known).len();
    assert_eq!(differs(json!({ "total": 9 })), 0, "as the server kept it");
    assert_eq!(differs(json!({ "total": 5 })), 0, "as desired");
    assert_eq!(differs(json!({ "total": 10 })), 1, "edited");
    assert_eq!(differs(json!({})), 1, "removed");
}

#[test]
fn defaults_of_a_long_plan_are_left_out() {
    let with = |number: usize| {
        let mut items = vec![item(&json!({ "total": 5 })); number];
        for item in &mut items {
            item.deviations = vec![
                one(
                    "spec.total",
                    DeviationClass::ChangedByAdmission,
                    json!(5),
                    json!(9),
                ),
                one(
                    "spec.interval",
                    DeviationClass::Defaulted,
                    json!("absent"),
                    json!(3600),
                ),
            ];
        }
        fit(&mut items);
        items
            .iter()
            .map(|item| item.deviations.len())
            .sum::<usize>()
    };
    assert_eq!(with(250), 500);
    assert_eq!(with(251), 251, "what was changed stays");
}

proptest! {
    /// Whatever a server keeps, the object in its response is no drift.
    #[test]
    fn response_is_never_drift(
        sent in prop::collection::btree_map("[a-d]", 0..3_i64, 0..4),
        kept in prop::collection::btree_map("[a-d]", 0..3_i64, 0..4),
    ) {
        let item = item(&json!(sent));
        let kept = object(&json!(kept));
        let found = losses(&deviations(&item, None, &kept, Some(&kind())));
        let wanted = plan::wanted_values(&item);
        prop_assert_eq!(unexplained(&wanted, &kept, &found), vec![]);
    }
}
