//! Which objects hold a disruptive item.

use api::approval::GateObjects;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use rstest::rstest;
use serde_json::json;

use super::*;

fn preset(preset: GatePreset) -> Vec<Probe> {
    let gate = InFlightGate {
        name: "work".to_owned(),
        preset: Some(preset),
        ..InFlightGate::default()
    };
    probes("production", &gate)
}

fn jobs(expression: &str) -> Probe {
    let gate = InFlightGate {
        name: "jobs".to_owned(),
        objects: Some(GateObjects {
            api_version: "batch/v1".to_owned(),
            kind: "Job".to_owned(),
        }),
        expression: Some(expression.to_owned()),
        ..InFlightGate::default()
    };
    probes("production", &gate).remove(0)
}

#[rstest]
#[case::migration_without_status(GatePreset::Migrations, 0, json!({}), true)]
#[case::migration_pending(GatePreset::Migrations, 0, json!({ "phase": "Pending" }), true)]
#[case::migration_running(GatePreset::Migrations, 0, json!({ "phase": "Running" }), true)]
#[case::migration_succeeded(GatePreset::Migrations, 0, json!({ "phase": "Succeeded" }), false)]
#[case::migration_failed(GatePreset::Migrations, 0, json!({ "phase": "Failed" }), false)]
#[case::disk_imports(GatePreset::Imports, 0, json!({ "phase": "ImportInProgress" }), true)]
#[case::disk_is_cloned(GatePreset::Imports, 0, json!({ "phase": "CSICloneInProgress" }), true)]
#[case::disk_is_scheduled(GatePreset::Imports, 0, json!({ "phase": "ImportScheduled" }), true)]
#[case::disk_waits_for_an_upload(GatePreset::Imports, 0, json!({ "phase": "UploadReady" }), false)]
#[case::disk_waits_for_a_consumer(GatePreset::Imports, 0, json!({ "phase": "WaitForFirstConsumer" }), false)]
#[case::disk_is_complete(GatePreset::Imports, 0, json!({ "phase": "Succeeded" }), false)]
#[case::disk_is_new(GatePreset::Imports, 0, json!({}), false)]
#[case::cron_imports(GatePreset::Imports, 1, json!({ "conditions": [{ "type": "Progressing", "status": "True" }] }), true)]
#[case::cron_rests(GatePreset::Imports, 1, json!({ "conditions": [{ "type": "Progressing", "status": "False" }] }), false)]
#[case::backup_runs(GatePreset::Backups, 0, json!({ "phase": "WaitingForPluginOperations" }), true)]
#[case::backup_is_new(GatePreset::Backups, 0, json!({}), true)]
#[case::backup_ended(GatePreset::Backups, 0, json!({ "phase": "PartiallyFailed" }), false)]
#[case::restore_runs(GatePreset::Backups, 1, json!({ "phase": "InProgress" }), true)]
fn presets_know_what_is_in_flight(
    #[case] of: GatePreset,
    #[case] index: usize,
    #[case] status: Value,
    #[case] expected: bool,
) {
    let probe = &preset(of)[index];
    let mut matcher = probe.compile(None).unwrap();
    let object = json!({ "metadata": { "name": "x" }, "status": status });
    assert_eq!(matcher.is_in_flight(&object), Ok(expected));
    let bare = json!({ "metadata": { "name": "x" } });
    matcher.is_in_flight(&bare).unwrap();
}

#[test]
fn kinds_of_presets_may_be_absent_and_others_may_not() {
    for of in PRESETS {
        assert!(preset(of).iter().all(|probe| probe.optional), "{of:?}");
    }
    assert!(!jobs("true").optional);
}

#[rstest]
#[case::syntax("object.status.(", "Syntax error")]
#[case::unknown_variable("oldObject == null", "undeclared reference to 'oldObject'")]
#[case::not_a_condition("'yes'", "yields string instead of bool")]
fn invalid_expression_is_reported(#[case] expression: &str, #[case] expected: &str) {
    let why = jobs(expression).compile(None).unwrap_err();
    assert!(why.contains(expected), "{why}");
}

#[rstest]
#[case::missing_field("object.status.active > 0", "no such key: status")]
#[case::number("dyn(3)", "yields 3 instead of true or false")]
fn expression_that_fails_is_no_answer(#[case] expression: &str, #[case] expected: &str) {
    let mut matcher = jobs(expression).compile(None).unwrap();
    let why = matcher.is_in_flight(&json!({})).unwrap_err();
    assert!(why.contains(expected), "{why}");
}

#[test]
fn cost_is_bounded_over_all_objects() {
    let expression =
        "object.all(a, object.all(b, object.all(c, object.all(d, a + b + c + d >= 0))))";
    let mut matcher = jobs(expression).compile(None).unwrap();
    let long: Value = (0..200).collect();
    let ends = (0..50).find_map(|_| matcher.is_in_flight(&long).err());
    assert!(ends.unwrap().contains("cost limit exceeded"));
}

fn definition(status: &Value) -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "kind": "Job", "plural": "jobs" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": { "type": "object", "properties": { "status": status } },
            } }],
        },
    }))
    .unwrap()
}

#[test]
fn schema_finds_misspelt_fields() {
    let typed = definition(&json!({
        "type": "object", "properties": { "active": { "type": "integer" } },
    }));
    let typed = schema(&typed, "v1");
    jobs("has(object.status.active)")
        .compile(typed.as_ref())
        .unwrap();
    let why = jobs("has(object.status.aktive)").compile(typed.as_ref());
    assert!(why.unwrap_err().contains("undefined field 'aktive'"));
    let open = definition(&json!({
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
    }));
    assert_eq!(schema(&open, "v1"), None, "it says nothing about fields");
}

fn reading(found: Result<&[(&str, &str)], &str>) -> Reading {
    let owned = |&(namespace, name): &(&str, &str)| (namespace.to_owned(), name.to_owned());
    Reading {
        gate: "migrations of ApprovalPolicy production".to_owned(),
        kind: "VirtualMachineInstanceMigration".to_owned(),
        found: found
            .map(|found| found.iter().map(owned).collect())
            .map_err(str::to_owned),
    }
}

#[test]
fn message_names_objects_and_gate() {
    assert_eq!(message(&[]), None);
    assert_eq!(message(&[reading(Ok(&[]))]), None);
    let two = reading(Ok(&[("shop", "db"), ("", "cluster")]));
    assert_eq!(
        message(&[reading(Ok(&[])), two]).unwrap(),
        "Waiting until it has finished: VirtualMachineInstanceMigration shop/db, \
         VirtualMachineInstanceMigration cluster (gate migrations of ApprovalPolicy production)"
    );
    let many = reading(Ok(&[
        ("a", "1"),
        ("a", "2"),
        ("a", "3"),
        ("a", "4"),
        ("a", "5"),
    ]));
    let text = message(&[many]).unwrap();
    assert!(text.contains("a/3 and 2 more (gate"), "{text}");
}

#[test]
fn unreadable_kind_holds() {
    let text = message(&[reading(Err("forbidden"))]).unwrap();
    assert!(text.ends_with("cannot be evaluated: forbidden"), "{text}");
}
