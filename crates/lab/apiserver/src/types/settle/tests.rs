use serde_json::json;

use super::*;

fn settled(group: &str, kind: &str, mut value: Value) -> Value {
    let id = table().kind(group, "v1", kind).unwrap();
    settle(id, &mut value);
    value
}

#[test]
fn empty_lists_that_are_always_written_become_null() {
    assert_eq!(
        settled(
            "storage.k8s.io",
            "CSINode",
            json!({"spec": {"drivers": []}})
        ),
        json!({"spec": {"drivers": null}})
    );
    assert_eq!(
        settled("rbac.authorization.k8s.io", "Role", json!({"rules": []})),
        json!({"rules": null})
    );
}

#[test]
fn structs_and_untyped_values_stay() {
    let object = json!({
        "metadata": {"managedFields": [{"fieldsV1": {"f:data": {}}}]},
        "spec": {"template": {"spec": {"volumes": [{"emptyDir": {}, "name": "v"}]}}},
    });
    assert_eq!(settled("apps", "Deployment", object.clone()), object);
}
