use super::*;

fn row_of(scale: &Value, custom: bool) -> (Value, Value) {
    let now: Timestamp = "2026-11-15T12:01:00Z".parse().unwrap();
    let table = scale_table(scale, custom, IncludeObject::None, now);
    (
        table["rows"][0]["cells"].clone(),
        table["columnDefinitions"][0]["format"].clone(),
    )
}

#[test]
fn scales_have_their_own_table() {
    let scale = json!({
        "metadata": {"name": "d", "creationTimestamp": "2026-11-15T12:00:00Z"},
        "spec": {"replicas": 3}, "status": {"replicas": 1},
    });
    assert_eq!(
        row_of(&scale, false),
        (json!(["d", 3, 1, "60s"]), json!(""))
    );
    assert_eq!(
        row_of(&scale, true),
        (json!(["d", 3, 1, "60s"]), json!("name"))
    );
}

#[test]
fn missing_replicas_are_zero_or_null() {
    let scale = json!({
        "metadata": {"name": "d", "creationTimestamp": "2026-11-15T12:00:00Z"},
        "spec": {}, "status": {"replicas": 0},
    });
    assert_eq!(row_of(&scale, false).0, json!(["d", 0, 0, "60s"]));
    assert_eq!(row_of(&scale, true).0, json!(["d", null, 0, "60s"]));
}
