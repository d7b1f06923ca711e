use serde_json::json;

use super::*;

fn texts(object: &Value, part: Part<'_>) -> Vec<String> {
    let paths = ScalePaths {
        spec_replicas: ".spec.replicas".to_owned(),
        status_replicas: ".status.replicas".to_owned(),
        label_selector: Some(".status.selector".to_owned()),
    };
    let errors = check(&paths, object, part);
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn absent_values_are_accepted() {
    for object in [
        json!({}),
        json!({"spec": {}}),
        json!({"spec": null}),
        json!({"spec": {"replicas": 3}, "status": {"replicas": 0, "selector": "a=b"}}),
    ] {
        assert_eq!(texts(&object, Part::Main), [""; 0], "{object}");
    }
}

#[test]
fn wrong_types_and_ranges_are_reported_at_the_path() {
    let cases = [
        (
            json!({"spec": 5}),
            ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: 5 is of the type int64, expected map[string]interface{}",
        ),
        (
            json!({"spec": {"replicas": "x"}}),
            ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: x is of the type string, expected int64",
        ),
        (
            json!({"spec": {"replicas": -1}}),
            ".spec.replicas: Invalid value: -1: should be a non-negative integer",
        ),
        (
            json!({"status": {"replicas": 2_147_483_648_i64}}),
            ".status.replicas: Invalid value: 2147483648: should be less than or equal to 2147483647",
        ),
        (
            json!({"status": {"selector": {}}}),
            ".status.selector: Invalid value: \"\": .status.selector accessor error: map[] is of the type map[string]interface {}, expected string",
        ),
    ];
    for (object, text) in cases {
        assert_eq!(texts(&object, Part::Main), [text], "{object}");
    }
}

#[test]
fn status_writes_validate_status_only() {
    let object = json!({"spec": {"replicas": -1}, "status": {"replicas": -1}});
    assert_eq!(
        texts(&object, Part::Status),
        [".status.replicas: Invalid value: -1: should be a non-negative integer"]
    );
}
