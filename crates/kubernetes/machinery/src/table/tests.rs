use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn now() -> Timestamp {
    "2026-11-15T20:00:00Z".parse().unwrap()
}

fn object() -> Value {
    json!({
        "apiVersion": "demo.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "a", "creationTimestamp": "2026-11-15T19:59:56Z"},
        "spec": {
            "size": 3, "ratio": 2.9, "tiny": 0.00001, "on": true, "text": "x<y", "none": null,
            "list": ["a", {"b": "<"}], "when": "soon", "empty": "",
        },
    })
}

#[rstest]
#[case("string", ".spec.text", json!("x<y"))]
#[case("string", ".spec.size", json!("3"))]
#[case("string", ".spec.ratio", json!("2.9"))]
#[case("string", ".spec.tiny", json!("1e-05"))]
#[case("string", ".spec.on", json!("true"))]
#[case("string", ".spec.list", json!("[\"a\",{\"b\":\"\\u003c\"}]"))]
#[case("string", ".spec.none", json!("<no value>"))]
#[case("string", ".spec.missing", json!(null))]
#[case("string", ".spec.list[7]", json!(null))]
#[case("integer", ".spec.size", json!(3))]
#[case("integer", ".spec.ratio", json!(2))]
#[case("integer", ".spec.text", json!(null))]
#[case("number", ".spec.ratio", json!(2.9))]
#[case("number", ".spec.size", json!(3.0))]
#[case("boolean", ".spec.on", json!(true))]
#[case("boolean", ".spec.text", json!(null))]
#[case("date", ".metadata.creationTimestamp", json!("4s"))]
#[case("date", ".spec.when", json!("<invalid>"))]
#[case("date", ".spec.empty", json!("<unknown>"))]
#[case("date", ".spec.size", json!(null))]
#[case("date", ".spec.missing", json!(null))]
fn cells_follow_the_column_type(#[case] kind: &str, #[case] path: &str, #[case] cell: Value) {
    let definition = json!({"name": "C", "type": kind, "jsonPath": path});
    let column = PrinterColumn::from_definition(&definition).unwrap();
    assert_eq!(column.cell(&object(), now()), cell);
}

#[test]
fn columns_describe_themselves() {
    let columns = custom_columns(&[
        json!({"name": "Size", "type": "integer", "jsonPath": ".spec.size"}),
        json!({"name": "Text", "type": "string", "jsonPath": ".spec.text", "priority": 1,
               "format": "byte", "description": "Words"}),
    ])
    .unwrap();
    assert_eq!(
        columns[0].column().description,
        "Custom resource definition column (in JSONPath format): .spec.size"
    );
    assert_eq!(
        serde_json::to_value(columns[1].column()).unwrap(),
        json!({"name": "Text", "type": "string", "format": "byte", "description": "Words", "priority": 1})
    );
}

#[test]
fn no_columns_mean_the_age() {
    let columns = custom_columns(&[]).unwrap();
    assert_eq!(columns.len(), 1);
    assert_eq!(columns[0].column().name, "Age");
    assert_eq!(columns[0].column().column_type, "date");
    assert_eq!(columns[0].cell(&object(), now()), json!("4s"));
}

#[test]
fn unreadable_columns_are_named() {
    let error = custom_columns(&[json!({"jsonPath": ".a["})]).unwrap_err();
    assert_eq!(error.to_string(), "unrecognized column definition \".a[\"");
}

#[test]
fn tables_in_wire_form() {
    let object = object();
    let row = |include| Row::new(vec![json!("a"), json!(3)], &object, include);
    let table = Table {
        resource_version: "7".into(),
        columns: vec![
            Column::object_name(),
            Column::new("Size", "integer", "How large").with_priority(1),
        ],
        rows: vec![
            row(IncludeObject::Metadata),
            row(IncludeObject::None),
            row(IncludeObject::Object),
        ],
        ..Table::default()
    };
    assert_eq!(
        table.into_value(),
        json!({
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": "7"},
            "columnDefinitions": [
                {"name": "Name", "type": "string", "format": "name", "description": NAME_DESCRIPTION, "priority": 0},
                {"name": "Size", "type": "integer", "format": "", "description": "How large", "priority": 1},
            ],
            "rows": [
                {"cells": ["a", 3], "object": {
                    "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                    "metadata": object["metadata"],
                }},
                {"cells": ["a", 3], "object": null},
                {"cells": ["a", 3], "object": object},
            ],
        })
    );
}

#[test]
fn pages_and_headless_tables() {
    let table = Table {
        continue_token: "abc".into(),
        remaining_item_count: Some(0),
        ..Table::default()
    };
    assert_eq!(
        table.into_value(),
        json!({
            "kind": "Table", "apiVersion": "meta.k8s.io/v1",
            "metadata": {"continue": "abc", "remainingItemCount": 0},
            "columnDefinitions": null, "rows": [],
        })
    );
}

#[test]
fn include_object_values() {
    assert_eq!(IncludeObject::parse(""), Some(IncludeObject::Metadata));
    assert_eq!(IncludeObject::parse("None"), Some(IncludeObject::None));
    assert_eq!(IncludeObject::parse("Object"), Some(IncludeObject::Object));
    assert_eq!(IncludeObject::parse("Bogus"), None);
}
