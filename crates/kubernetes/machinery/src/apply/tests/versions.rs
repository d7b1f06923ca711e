//! Kinds that are served in several versions, and schemas that change.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::apply::{
    ApplyError, FieldSet, MapType, Request, Scalar, Schema, TypeRef, Versions, apply,
    object_meta_type, update,
};

/// `v1` has `size`, `v2` calls it `width`.
struct Renamed;

fn typed(field: &str) -> TypeRef {
    let string = TypeRef::scalar(Scalar::String);
    TypeRef::closed([
        ("apiVersion", string.clone()),
        ("kind", string.clone()),
        ("metadata", object_meta_type()),
        (
            "spec",
            TypeRef::closed([(field, TypeRef::scalar(Scalar::Numeric)), ("note", string)]),
        ),
    ])
}

impl Versions for Renamed {
    fn merge_type(&self, api_version: &str) -> Option<(Arc<Schema>, TypeRef)> {
        let field = match api_version {
            "e/v1" => "size",
            "e/v2" => "width",
            _ => return None,
        };
        Some((Arc::default(), typed(field)))
    }

    fn convert(&self, object: &Value, api_version: &str) -> Option<Value> {
        let (from, to) = match api_version {
            "e/v1" => ("width", "size"),
            "e/v2" => ("size", "width"),
            _ => return None,
        };
        let mut object = object.clone();
        object["apiVersion"] = json!(api_version);
        if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
            && let Some(value) = spec.remove(from)
        {
            spec.insert(to.to_owned(), value);
        }
        Some(object)
    }
}

fn request<'a>(
    versions: &'a dyn Versions,
    manager: &'a str,
    api_version: &'a str,
    reset: &'a FieldSet,
) -> Request<'a> {
    Request {
        versions,
        manager,
        api_version,
        kind: "E",
        subresource: "",
        reset,
        now: Timestamp::UNIX_EPOCH,
    }
}

#[expect(clippy::needless_pass_by_value, reason = "bodies are written in place")]
fn body(api_version: &str, spec: Value) -> Value {
    json!({"apiVersion": api_version, "kind": "E", "metadata": {"name": "a"}, "spec": spec})
}

fn sets(object: &Value) -> Vec<(String, Value)> {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let who = |entry: &Value| format!("{} {}", entry["manager"], entry["apiVersion"]);
    entries
        .iter()
        .map(|entry| (who(entry), entry["fieldsV1"].clone()))
        .collect()
}

#[test]
fn conflicts_and_pruning_see_through_conversion() {
    let none = FieldSet::default();
    let v1 = |manager| request(&Renamed, manager, "e/v1", &none);
    let v2 = |manager| request(&Renamed, manager, "e/v2", &none);
    let live = apply(
        &v1("m1"),
        None,
        &body("e/v1", json!({"size": 1, "note": "n"})),
        false,
    )
    .unwrap();
    let error = apply(
        &v2("m2"),
        Some(&live),
        &body("e/v2", json!({"width": 2})),
        false,
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"m1\": .spec.size",
        "the path is that of the owner's version"
    );
    // An applier that moves to another version keeps its entry, and drops what it drops.
    let moved = apply(
        &v2("m1"),
        Some(&live),
        &body("e/v2", json!({"width": 1})),
        false,
    )
    .unwrap();
    assert_eq!(moved["spec"], json!({"width": 1}));
    assert_eq!(
        sets(&moved),
        [(
            "\"m1\" \"e/v2\"".to_owned(),
            json!({"f:spec": {"f:width": {}}})
        )]
    );
    let mut updated = body("e/v2", json!({"width": 7, "note": "n"}));
    update(&v2("upd"), Some(&live), &mut updated);
    assert_eq!(
        sets(&updated),
        [
            (
                "\"m1\" \"e/v1\"".to_owned(),
                json!({"f:spec": {"f:note": {}}})
            ),
            (
                "\"upd\" \"e/v2\"".to_owned(),
                json!({"f:spec": {"f:width": {}}})
            ),
        ]
    );
}

#[test]
fn entries_of_versions_that_are_gone_are_dropped() {
    let none = FieldSet::default();
    let request = request(&Renamed, "m2", "e/v1", &none);
    let mut live = body("e/v1", json!({"size": 1}));
    live["metadata"]["uid"] = json!("u");
    live["metadata"]["managedFields"] = json!([{
        "manager": "m1", "operation": "Apply", "apiVersion": "e/v0", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:size": {}}},
    }]);
    let next = apply(
        &request,
        Some(&live),
        &body("e/v1", json!({"size": 2})),
        false,
    )
    .unwrap();
    assert_eq!(
        sets(&next),
        [(
            "\"m2\" \"e/v1\"".to_owned(),
            json!({"f:spec": {"f:size": {}}})
        )]
    );
}

#[test]
fn bodies_have_to_be_of_the_endpoint() {
    let none = FieldSet::default();
    let request = request(&Renamed, "m", "e/v1", &none);
    for (given, message) in [
        (body("e/v2", json!({})), "e/v2, Kind=E"),
        (json!({"metadata": {}}), "/, Kind="),
        (json!({"apiVersion": "a/b/c", "kind": "E"}), "/, Kind="),
        (json!({"apiVersion": "v1", "kind": "Pod"}), "/v1, Kind=Pod"),
    ] {
        let error = apply(&request, None, &given, false).unwrap_err();
        assert_eq!(error, ApplyError::InvalidObjectType(message.to_owned()));
        let status = crate::status::Status::from(error);
        assert_eq!(
            (status.code, status.message),
            (400, format!("invalid object type: {message}"))
        );
    }
}

/// A kind whose `spec.part` has become atomic.
struct NowAtomic;

impl Versions for NowAtomic {
    fn merge_type(&self, _: &str) -> Option<(Arc<Schema>, TypeRef)> {
        let part = MapType {
            element: Some(TypeRef::scalar(Scalar::String)),
            atomic: true,
            ..MapType::default()
        };
        let spec = TypeRef::closed([
            ("part", TypeRef::from(part)),
            ("list", TypeRef::list_of(TypeRef::scalar(Scalar::String))),
            ("free", TypeRef::Deduced),
        ]);
        Some((
            Arc::default(),
            TypeRef::closed([
                ("apiVersion", TypeRef::scalar(Scalar::String)),
                ("kind", TypeRef::scalar(Scalar::String)),
                ("metadata", object_meta_type()),
                ("spec", spec),
            ]),
        ))
    }

    fn convert(&self, _: &Value, _: &str) -> Option<Value> {
        None
    }
}

#[test]
fn owner_of_a_part_owns_the_field_that_became_atomic() {
    let none = FieldSet::default();
    let request = request(&NowAtomic, "m2", "e/v1", &none);
    let mut live = body(
        "e/v1",
        json!({"part": {"a": "1"}, "list": ["x"], "free": {"k": {"v": 1}}}),
    );
    live["metadata"]["uid"] = json!("u");
    live["metadata"]["managedFields"] = json!([{
        "manager": "m1", "operation": "Apply", "apiVersion": "e/v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {
            "f:part": {"f:a": {}}, "f:list": {"v:\"x\"": {}},
            "f:free": {"f:k": {".": {}, "f:v": {}}},
        }},
    }]);
    let config = body("e/v1", json!({"part": {"a": "1"}}));
    let next = apply(&request, Some(&live), &config, false).unwrap();
    let (_, first) = sets(&next)
        .into_iter()
        .find(|(who, _)| who.contains("m1"))
        .unwrap();
    assert_eq!(
        first,
        json!({"f:spec": {"f:part": {}, "f:list": {}, "f:free": {"f:k": {".": {}, "f:v": {}}}}})
    );
    let config = body("e/v1", json!({"part": {"b": "1"}}));
    let error = apply(&request, Some(&live), &config, false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"m1\": .spec.part"
    );
}

#[test]
fn fields_of_the_empty_object_have_no_owner() {
    struct Typed;
    impl Versions for Typed {
        fn merge_type(&self, _: &str) -> Option<(Arc<Schema>, TypeRef)> {
            Some((Arc::default(), typed("size")))
        }
        fn convert(&self, _: &Value, _: &str) -> Option<Value> {
            None
        }
        fn empty_object(&self, api_version: &str) -> Option<Value> {
            Some(json!({"apiVersion": api_version, "kind": "E", "spec": {}}))
        }
    }
    let none = FieldSet::default();
    let mut new = body("e/v1", json!({"size": 1}));
    update(&request(&Typed, "c", "e/v1", &none), None, &mut new);
    assert_eq!(sets(&new)[0].1, json!({"f:spec": {"f:size": {}}}));
}
