//! Ownership through the scale subresource.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::apply::{
    FieldSet, PathElement, Request, ScaleHandler, Schema, TypeRef, Versions, apply, update,
};

fn replicas() -> Vec<PathElement> {
    vec![PathElement::field("spec"), PathElement::field("replicas")]
}

fn handler(entries: &Value) -> ScaleHandler {
    let paths = BTreeMap::from([("apps/v1".to_owned(), Some(replicas()))]);
    ScaleHandler::new(Some(entries), "apps/v1", paths).unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "bodies are written in place")]
fn owner(manager: &str, operation: &str, fields: Value) -> Value {
    json!({
        "manager": manager, "operation": operation, "apiVersion": "apps/v1",
        "fieldsType": "FieldsV1", "fieldsV1": fields, "time": "2026-11-15T20:11:32Z",
    })
}

struct Scales;

impl Versions for Scales {
    fn merge_type(&self, api_version: &str) -> Option<(Arc<Schema>, TypeRef)> {
        (api_version == "autoscaling/v1").then(|| (Arc::default(), TypeRef::Deduced))
    }

    fn convert(&self, _: &Value, _: &str) -> Option<Value> {
        None
    }
}

fn request<'a>(manager: &'a str, reset: &'a FieldSet) -> Request<'a> {
    Request {
        versions: &Scales,
        manager,
        api_version: "autoscaling/v1",
        kind: "Scale",
        subresource: "scale",
        reset,
        now: Timestamp::UNIX_EPOCH,
    }
}

fn scale(replicas: u32, managed: Option<Value>) -> Value {
    let mut scale = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {"name": "d", "uid": "u"}, "spec": {"replicas": replicas},
    });
    if let Some(managed) = managed {
        scale["metadata"]["managedFields"] = managed;
    }
    scale
}

#[test]
fn scaling_takes_the_replicas() {
    let rest = json!({"f:spec": {"f:paused": {}}});
    let parent = json!([
        owner(
            "m1",
            "Apply",
            json!({"f:spec": {"f:paused": {}, "f:replicas": {}}})
        ),
        owner("upd", "Update", json!({"f:spec": {"f:replicas": {}}})),
    ]);
    let handler = handler(&parent);
    let live = scale(1, handler.to_subresource());
    let theirs = json!({"f:spec": {"f:replicas": {}}});
    for entry in live["metadata"]["managedFields"].as_array().unwrap() {
        assert_eq!(
            (&entry["apiVersion"], &entry["fieldsV1"]),
            (&json!("autoscaling/v1"), &theirs)
        );
    }
    let reset = FieldSet::default();
    let mut new = scale(5, None);
    update(&request("sc", &reset), Some(&live), &mut new);
    assert_eq!(
        handler
            .to_parent(new["metadata"].get("managedFields"))
            .unwrap(),
        Some(json!([
            owner("m1", "Apply", rest),
            {
                "manager": "sc", "operation": "Update", "apiVersion": "apps/v1",
                "fieldsType": "FieldsV1", "fieldsV1": theirs, "subresource": "scale",
            },
        ]))
    );
}

#[test]
fn appliers_that_keep_the_replicas_keep_their_entry() {
    let parent = json!([owner(
        "m1",
        "Apply",
        json!({"f:spec": {"f:paused": {}, "f:replicas": {}}})
    )]);
    let handler = handler(&parent);
    let fields = handler.to_subresource();
    assert_eq!(
        handler.to_parent(fields.as_ref()).unwrap(),
        Some(parent.clone())
    );
    let live = scale(1, fields);
    let body = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"},
        "spec": {"replicas": 2},
    });
    let reset = FieldSet::default();
    let error = apply(&request("m2", &reset), Some(&live), &body, false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"m1\": .spec.replicas"
    );
}

#[test]
fn unowned_replicas_stay_unowned() {
    let parent = json!([owner("m1", "Apply", json!({"f:spec": {"f:paused": {}}}))]);
    let handler = handler(&parent);
    assert_eq!(handler.to_subresource(), None);
    let mut new = scale(5, None);
    let reset = FieldSet::default();
    update(&request("sc", &reset), Some(&scale(1, None)), &mut new);
    let after = handler
        .to_parent(new["metadata"].get("managedFields"))
        .unwrap();
    assert_eq!(after, Some(parent));
}

#[test]
fn versions_that_are_not_served_lose_their_owners() {
    let mut old = owner("m1", "Apply", json!({"f:spec": {"f:replicas": {}}}));
    old["apiVersion"] = json!("apps/v1beta1");
    let handler = handler(&json!([old]));
    assert_eq!(handler.to_subresource(), None);
    assert_eq!(handler.to_parent(None).unwrap(), None);
}
