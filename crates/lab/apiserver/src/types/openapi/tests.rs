use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::types::table::{Field, Scalar, Shape};

const ALL: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

fn resource<'a>(name: &'a str, group: &str, kind: &str, namespaced: bool) -> DocumentResource<'a> {
    DocumentResource {
        name,
        namespaced,
        kind: GroupVersionKind::new(group, "v1", kind),
        verbs: ALL,
        model: None,
    }
}

fn core() -> Value {
    openapi_document(
        "",
        "v1",
        &[
            resource("pods", "", "Pod", true),
            DocumentResource {
                verbs: &["get", "patch", "update"],
                ..resource("pods/status", "", "Pod", true)
            },
            resource("services", "", "Service", true),
            resource("namespaces", "", "Namespace", false),
        ],
    )
}

#[test]
fn models_match_kube_openapi() {
    let document = core();
    let model = |name: &str| {
        let mut schema =
            document["components"]["schemas"][format!("io.k8s.api.core.v1.{name}")].clone();
        strip(&mut schema);
        schema
    };
    assert_eq!(
        model("ContainerPort"),
        json!({
            "type": "object", "required": ["containerPort"],
            "properties": {
                "containerPort": {"type": "integer", "format": "int32", "default": 0},
                "hostIP": {"type": "string"},
                "hostPort": {"type": "integer", "format": "int32"},
                "name": {"type": "string"},
                "protocol": {"type": "string", "default": "TCP", "enum": ["SCTP", "TCP", "UDP"]},
            },
        })
    );
    assert_eq!(
        model("Pod"),
        json!({
            "type": "object",
            "properties": {
                "apiVersion": {"type": "string"}, "kind": {"type": "string"},
                "metadata": {"default": {}, "allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}]},
                "spec": {"default": {}, "allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.PodSpec"}]},
                "status": {"default": {}, "allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.PodStatus"}]},
            },
            "x-kubernetes-group-version-kind": [{"group": "", "kind": "Pod", "version": "v1"}],
        })
    );
    assert_eq!(
        model("PodSpec")["properties"]["containers"],
        json!({
            "type": "array",
            "items": {"default": {}, "allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.Container"}]},
            "x-kubernetes-list-map-keys": ["name"], "x-kubernetes-list-type": "map",
            "x-kubernetes-patch-merge-key": "name", "x-kubernetes-patch-strategy": "merge",
        })
    );
    assert_eq!(
        model("PodList")["x-kubernetes-group-version-kind"],
        json!([{"group": "", "kind": "PodList", "version": "v1"}])
    );
}

/// Removes descriptions.
fn strip(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if map.get("description").is_some_and(Value::is_string) {
                map.remove("description");
            }
            map.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

#[test]
fn fields_are_described() {
    let document = core();
    let schemas = &document["components"]["schemas"];
    let port = &schemas["io.k8s.api.core.v1.ContainerPort"];
    assert!(
        port["description"]
            .as_str()
            .unwrap()
            .contains("network port")
    );
    assert!(
        port["properties"]["hostIP"]["description"]
            .as_str()
            .unwrap()
            .contains("host IP")
    );
    let list = &schemas["io.k8s.api.core.v1.PodList"]["properties"];
    assert!(list["kind"]["description"].is_string());
}

#[test]
fn every_reference_of_a_document_resolves_in_it() {
    let document = core();
    let mut references = BTreeSet::new();
    collect(&document, &mut references);
    assert!(references.len() > 100);
    for reference in references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
    let common = Value::Object(openapi_common_models("example.com", "v1"));
    let mut references = BTreeSet::new();
    collect(&common, &mut references);
    for reference in references {
        assert!(
            common
                .get(reference.strip_prefix(SCHEMAS).unwrap())
                .is_some(),
            "{reference}"
        );
    }
}

fn collect(value: &Value, references: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(reference)) = map.get("$ref") {
                references.insert(reference.clone());
            }
            map.values().for_each(|value| collect(value, references));
        }
        Value::Array(items) => items.iter().for_each(|value| collect(value, references)),
        _ => {}
    }
}

#[test]
fn writes_have_the_parameters_kubectl_checks() {
    let document = core();
    let paths = document["paths"].as_object().unwrap();
    let names: Vec<&str> = paths.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "/api/v1/namespaces",
            "/api/v1/namespaces/{namespace}/pods",
            "/api/v1/namespaces/{namespace}/pods/{name}",
            "/api/v1/namespaces/{namespace}/pods/{name}/status",
            "/api/v1/namespaces/{namespace}/services",
            "/api/v1/namespaces/{namespace}/services/{name}",
            "/api/v1/namespaces/{name}",
            "/api/v1/pods",
            "/api/v1/services",
        ]
    );
    for (path, method, action) in [
        ("/api/v1/namespaces/{namespace}/pods", "post", "post"),
        ("/api/v1/namespaces/{namespace}/pods/{name}", "put", "put"),
        (
            "/api/v1/namespaces/{namespace}/pods/{name}",
            "patch",
            "patch",
        ),
        (
            "/api/v1/namespaces/{namespace}/pods/{name}/status",
            "patch",
            "patch",
        ),
    ] {
        let operation = &paths[path][method];
        let parameters: Vec<&str> = operation["parameters"]
            .as_array()
            .unwrap()
            .iter()
            .map(|parameter| parameter["name"].as_str().unwrap())
            .collect();
        for name in ["dryRun", "fieldManager", "fieldValidation"] {
            assert!(parameters.contains(&name), "{path} {method} {name}");
        }
        assert_eq!(operation["x-kubernetes-action"], action);
        assert_eq!(
            operation["x-kubernetes-group-version-kind"],
            json!({"group": "", "version": "v1", "kind": "Pod"})
        );
    }
    assert!(
        paths["/api/v1/namespaces/{namespace}/pods/{name}/status"]
            .get("delete")
            .is_none()
    );
}

#[test]
fn custom_resources_have_no_strategic_merge_patch() {
    let widgets = DocumentResource {
        model: Some("com.example.v1.Widget".to_owned()),
        ..resource("widgets", "example.com", "Widget", true)
    };
    let paths = openapi_paths("example.com", "v1", &[widgets]);
    let item = &paths["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"];
    let media: Vec<&String> = item["patch"]["requestBody"]["content"]
        .as_object()
        .unwrap()
        .keys()
        .collect();
    assert_eq!(
        media,
        [
            "application/apply-patch+yaml",
            "application/json-patch+json",
            "application/merge-patch+json"
        ]
    );
}

/// The JSON type of a field on the wire; `None` for any.
fn wire_type(field: &Field) -> Option<&'static str> {
    match &table().get(field.ty).shape {
        Shape::Struct(_) | Shape::Map(..) => Some("object"),
        Shape::List(_) => Some("array"),
        Shape::Scalar(scalar) => match scalar {
            Scalar::Bool => Some("boolean"),
            Scalar::Int32 | Scalar::Int64 => Some("integer"),
            Scalar::Float64 => Some("number"),
            Scalar::String | Scalar::Bytes | Scalar::Time | Scalar::MicroTime => Some("string"),
            _ => None,
        },
    }
}

/// An independent source has the same models with the same fields of the same types.
#[test]
fn the_table_agrees_with_k8s_openapi() {
    let mut models: BTreeMap<String, Value> = BTreeMap::new();
    for (group, version) in descriptions::GROUPS {
        for (name, schema) in descriptions::describe(group, version).schemas() {
            models.insert(name.clone(), schema.clone());
        }
    }
    assert!(models.len() > 400, "{}", models.len());
    let ids: BTreeMap<String, TypeId> = table()
        .structures()
        .map(|(id, _)| (table().model_name(id), id))
        .collect();
    let mut problems = Vec::new();
    for (name, schema) in &models {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            continue;
        };
        let Some(structure) = ids.get(name).and_then(|id| table().structure(*id)) else {
            problems.push(format!("{name} is not in the table"));
            continue;
        };
        for field in &structure.fields {
            if !properties.contains_key(field.name) {
                problems.push(format!("{name}.{} is only in the table", field.name));
            }
        }
        for (field, schema) in properties {
            let Some(known) = structure.field(field) else {
                problems.push(format!("{name}.{field} is not in the table"));
                continue;
            };
            let expected = schema.get("type").and_then(Value::as_str);
            let (Some(expected), Some(actual)) = (expected, wire_type(known)) else {
                continue;
            };
            if expected != actual {
                problems.push(format!("{name}.{field} is {actual}, not {expected}"));
            }
        }
    }
    assert_eq!(problems, Vec::<String>::new());
    // The reverse: every struct of a kind is in the table; lists are generic there, and embedded
    // structs and request options have no model.
    for (group, version) in descriptions::GROUPS {
        for (kind, id) in table().kinds(group, version) {
            let name = table().model_name(id);
            assert!(
                models.contains_key(&name) || kind.ends_with("List"),
                "{name}"
            );
        }
    }
}
