//! The wire form of entries.

use serde_json::{Value, json};

use super::support::{Server, identified};
use crate::apply::managed::{Managed, validate_managed_fields};

fn entry(manager: &str, operation: &str, version: &str, time: Option<&str>) -> Value {
    let mut entry = json!({
        "manager": manager, "operation": operation, "apiVersion": version,
        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}},
    });
    if let Some(time) = time {
        entry["time"] = json!(time);
    }
    entry
}

#[test]
fn entries_are_ordered_on_the_wire() {
    let sorted = json!([
        entry("z", "Apply", "v1", None),
        entry("b", "Apply", "v1", Some("2026-11-15T20:11:32Z")),
        entry("a", "Apply", "v1", Some("2026-11-15T20:11:33Z")),
        entry("a", "Update", "v1", None),
        entry("a", "Update", "v1", Some("2026-11-15T20:11:32Z")),
        entry("a", "Update", "v2", Some("2026-11-15T20:11:32Z")),
        entry("b", "Update", "v1", Some("2026-11-15T20:11:32Z")),
    ]);
    let mut list = sorted.as_array().unwrap().clone();
    // One manager has one entry for each version.
    list.remove(3);
    let expected = Value::Array(list.clone());
    list.reverse();
    let managed = Managed::decode(Some(&Value::Array(list))).unwrap();
    assert_eq!(managed.encode(), Some(expected));
}

#[test]
fn entry_of_a_subresource_has_all_its_fields() {
    let mut server = Server::new();
    server.put(
        "status",
        "x",
        identified(json!({"status": {"phase": "Up"}})),
    );
    assert_eq!(
        server.metadata("managedFields"),
        &json!([{
            "manager": "x", "operation": "Update", "apiVersion": "rec.example.com/v1",
            "time": "2023-11-14T22:13:21Z", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:status": {".": {}, "f:phase": {}}}, "subresource": "status",
        }])
    );
}

#[test]
fn times_are_truncated_to_wire_precision() {
    let list = json!([entry(
        "a",
        "Apply",
        "v1",
        Some("2026-11-15T21:11:32.123456+01:00")
    )]);
    let managed = Managed::decode(Some(&list)).unwrap();
    assert_eq!(managed.encode().unwrap()[0]["time"], "2026-11-15T20:11:32Z");
}

#[test]
fn invalid_entries_are_reported() {
    let mut bad = entry("a", "Bogus", "v1", None);
    let message = |value: &Value| {
        validate_managed_fields(&json!([value]))
            .unwrap_err()
            .to_string()
    };
    assert_eq!(message(&bad), "operation must be `Apply` or `Update`");
    bad["operation"] = json!("Apply");
    bad["fieldsType"] = json!("");
    assert_eq!(
        message(&bad),
        "missing fieldsType in managed fields entry 0"
    );
    bad["fieldsType"] = json!("X");
    assert_eq!(
        message(&bad),
        "invalid fieldsType \"X\" in managed fields entry 0"
    );
    bad["fieldsType"] = json!("FieldsV1");
    bad["time"] = json!("yesterday");
    assert_eq!(message(&bad), "managed fields are malformed at entry 0");
    bad["time"] = Value::Null;
    assert_eq!(validate_managed_fields(&json!([bad])), Ok(()));
}
