//! The former values of a target.

use std::collections::BTreeMap;

use api::advisor::{Impact, TargetRef};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::{Before, before};
use crate::record::{Record, RecordedItem};

fn target(name: &str) -> TargetRef {
    TargetRef {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        name: name.to_owned(),
        namespace: None,
    }
}

/// A plan that found these values in its managed fields; `null` where there were none.
fn record(revision: i64, name: &str, found: Option<Value>) -> Record {
    let fields = found.clone().unwrap_or_else(|| json!({ "data.a": null }));
    let fields = fields.as_object().unwrap().clone();
    let there = |found: Value| -> BTreeMap<String, Value> {
        let found = found.as_object().unwrap().clone().into_iter();
        found.filter(|(_, value)| !value.is_null()).collect()
    };
    Record {
        revision,
        plan_digest: format!("sha256:{revision}"),
        rollback_to: None,
        correction: false,
        approved_by: Vec::new(),
        approvals: Vec::new(),
        config_uid: None,
        impact: Impact::Low,
        operator_version: "v1".to_owned(),
        options: None,
        inputs: Vec::new(),
        items: vec![RecordedItem {
            name: name.to_owned(),
            target_ref: target(name),
            operation: api::advisor::Operation::Apply,
            desired_state: None,
            managed_fields: fields.keys().cloned().collect(),
            before: found.map(there),
            owners: BTreeMap::new(),
            diff: None,
        }],
        started: Time("2026-07-01T12:00:00Z".parse().unwrap()),
        outcome: None,
    }
}

fn before_records(records: &[Record], name: &str) -> Before {
    before(records.iter(), &target(name))
}

#[test]
fn untouched_target_has_no_former_values() {
    assert_eq!(before_records(&[], "x"), Before::Untouched);
    let other = [record(1, "y", Some(json!({ "data.a": 1 })))];
    assert_eq!(before_records(&other, "x"), Before::Untouched);
}

#[test]
fn first_record_of_a_field_has_its_former_value() {
    let records = [
        record(1, "x", Some(json!({ "data.a": 1 }))),
        record(
            2,
            "x",
            Some(json!({ "data.a": 2, "data.b": 5, "data.c": null })),
        ),
        record(3, "x", Some(json!({ "data.b": 6, "data.c": 7 }))),
    ];
    // A field first managed by a later plan is restored, not removed.
    let values = [
        ("data.a".to_owned(), json!(1)),
        ("data.b".to_owned(), json!(5)),
    ];
    assert_eq!(before_records(&records, "x"), Before::Values(values.into()));
}

#[test]
fn target_created_by_the_first_plan_was_absent() {
    let records = [
        record(1, "x", None),
        record(2, "x", Some(json!({ "data.a": 2, "data.b": 5 }))),
    ];
    assert_eq!(before_records(&records, "x"), Before::Absent);
}
