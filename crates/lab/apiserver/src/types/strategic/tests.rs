use machinery::patch::strategic_merge_patch;
use serde_json::{Value, json};

use super::*;

fn patch(kind: (&str, &str), object: &Value, patch: &Value) -> Result<Value, String> {
    let ty = Strategic::new(table().kind(kind.0, "v1", kind.1).unwrap());
    strategic_merge_patch(object, patch, &ty).map_err(|error| error.to_string())
}

#[test]
fn containers_merge_by_name_and_ports_by_number() {
    let deployment = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "a", "image": "a:1", "ports": [{"containerPort": 80, "protocol": "TCP"}]},
        {"name": "b", "image": "b:1"},
    ]}}}});
    let change = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "b", "image": "b:2"},
        {"name": "a", "ports": [{"containerPort": 80, "name": "web"}]},
    ]}}}});
    let patched = patch(("apps", "Deployment"), &deployment, &change).unwrap();
    let containers = patched["spec"]["template"]["spec"]["containers"]
        .as_array()
        .unwrap();
    assert_eq!(containers.len(), 2);
    let a = containers.iter().find(|c| c["name"] == "a").unwrap();
    assert_eq!(a["image"], "a:1");
    assert_eq!(
        a["ports"],
        json!([{"containerPort": 80, "protocol": "TCP", "name": "web"}])
    );
    assert!(containers.contains(&json!({"name": "b", "image": "b:2"})));
}

#[test]
fn finalizers_merge_and_plain_lists_are_replaced() {
    let pod = json!({"metadata": {"finalizers": ["a"]}, "spec": {"tolerations": [{"key": "x"}]}});
    let change =
        json!({"metadata": {"finalizers": ["b"]}, "spec": {"tolerations": [{"key": "y"}]}});
    let patched = patch(("", "Pod"), &pod, &change).unwrap();
    assert_eq!(patched["metadata"]["finalizers"], json!(["b", "a"]));
    assert_eq!(patched["spec"]["tolerations"], json!([{"key": "y"}]));
}

#[test]
fn items_without_their_merge_key_are_refused() {
    let pod = json!({"spec": {"containers": [{"name": "a"}]}});
    let change = json!({"spec": {"containers": [{"image": "i9"}]}});
    assert_eq!(
        patch(("", "Pod"), &pod, &change).unwrap_err(),
        "map: map[image:i9] does not contain declared merge key: name"
    );
}

#[test]
fn embedded_fields_are_found_and_unknown_ones_are_not() {
    let volume = Strategic::new(table().find("core/v1.Volume").unwrap());
    assert_eq!(volume.kind(), TypeKind::Struct("Volume"));
    assert!(volume.field("hostPath").is_some());
    assert!(volume.field("volumeSource").is_none());
    let spec = Strategic::new(table().find("core/v1.PodSpec").unwrap());
    let volumes = spec.field("volumes").unwrap();
    assert_eq!((volumes.list, volumes.merge_key), (true, Some("name")));
    assert_eq!(volumes.strategy, PatchStrategy::Merge);
    let budget = Strategic::new(table().find("policy/v1.PodDisruptionBudgetSpec").unwrap());
    assert_eq!(
        budget.field("selector").unwrap().strategy,
        PatchStrategy::Replace
    );
}
