//! Building blocks of CRD schemas.

use serde_json::{Map, Value, json};

use crate::names::SIMULATED;

pub(super) fn text() -> Value {
    json!({ "type": "string" })
}

pub(super) fn boolean() -> Value {
    json!({ "type": "boolean" })
}

pub(super) fn time() -> Value {
    json!({ "type": "string", "format": "date-time" })
}

pub(super) fn int32() -> Value {
    json!({ "type": "integer", "format": "int32" })
}

pub(super) fn int64() -> Value {
    json!({ "type": "integer", "format": "int64" })
}

pub(super) fn choice(of: &[&str]) -> Value {
    json!({ "type": "string", "enum": of })
}

pub(super) fn int_or_text() -> Value {
    json!({
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "x-kubernetes-int-or-string": true,
    })
}

/// An object without a schema.
pub(super) fn anything() -> Value {
    json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// An object with a partial schema: unknown fields are preserved.
pub(super) fn open(schema: Value) -> Value {
    with(
        schema,
        json!({ "x-kubernetes-preserve-unknown-fields": true }),
    )
}

/// A list of strings.
pub(super) fn texts() -> Value {
    json!({ "type": "object", "additionalProperties": { "type": "string" } })
}

pub(super) fn list(items: &Value) -> Value {
    json!({ "type": "array", "items": items })
}

/// A list owned by one field manager (`x-kubernetes-list-type: atomic`).
pub(super) fn atomic(items: &Value) -> Value {
    json!({ "type": "array", "items": items, "x-kubernetes-list-type": "atomic" })
}

/// A list whose entries have keys (`x-kubernetes-list-type: map`).
pub(super) fn keyed(items: &Value, keys: &[&str]) -> Value {
    json!({
        "type": "array",
        "items": items,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": keys,
    })
}

/// An object with these fields.
pub(super) fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let fields: Map<String, Value> = fields
        .into_iter()
        .map(|(name, schema)| (name.to_owned(), schema))
        .collect();
    json!({ "type": "object", "properties": fields })
}

/// A schema with additional keywords.
pub(super) fn with(mut schema: Value, keywords: Value) -> Value {
    if let (Some(schema), Value::Object(keywords)) = (schema.as_object_mut(), keywords) {
        schema.extend(keywords);
    }
    schema
}

/// An object schema with these required fields.
pub(super) fn requiring(schema: Value, fields: &[&str]) -> Value {
    with(schema, json!({ "required": fields }))
}

/// The root schema of most kinds: spec and status.
pub(super) fn spec_and_status(spec: Value, status: Value) -> Value {
    requiring(object([("spec", spec), ("status", status)]), &["spec"])
}

/// A singleton kind whose object is named `cluster`.
pub(super) fn only_cluster(schema: Value, kind: &str) -> Value {
    with(
        schema,
        json!({ "x-kubernetes-validations": [{
            "rule": "self.metadata.name == 'cluster'",
            "message": format!("there is one {kind}, and its name must be cluster"),
        }] }),
    )
}

/// An object template of another kind.
pub(super) fn embedded(spec: Value) -> Value {
    object([
        ("apiVersion", text()),
        ("kind", text()),
        ("metadata", anything()),
        ("spec", spec),
        ("status", anything()),
    ])
}

/// A schema with defaults for its fields, which also apply when the object is omitted.
pub(super) fn defaulted(schema: Value, default: &Value) -> Value {
    with(schema, json!({ "default": default }))
}

/// `metav1.LabelSelector`.
pub(super) fn label_selector() -> Value {
    let expression = requiring(
        object([
            ("key", text()),
            ("operator", text()),
            ("values", atomic(&text())),
        ]),
        &["key", "operator"],
    );
    with(
        object([
            ("matchExpressions", atomic(&expression)),
            ("matchLabels", texts()),
        ]),
        json!({ "x-kubernetes-map-type": "atomic" }),
    )
}

/// `corev1.ObjectReference`.
pub(super) fn reference() -> Value {
    with(
        object([
            ("apiVersion", text()),
            ("fieldPath", text()),
            ("kind", text()),
            ("name", text()),
            ("namespace", text()),
            ("resourceVersion", text()),
            ("uid", text()),
        ]),
        json!({ "x-kubernetes-map-type": "atomic" }),
    )
}

/// `metav1.Condition`.
pub(super) fn conditions() -> Value {
    let condition = requiring(
        object([
            ("lastTransitionTime", time()),
            ("message", json!({ "type": "string", "maxLength": 32768 })),
            (
                "observedGeneration",
                json!({ "type": "integer", "format": "int64", "minimum": 0 }),
            ),
            (
                "reason",
                json!({
                    "type": "string",
                    "maxLength": 1024,
                    "minLength": 1,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                }),
            ),
            ("status", choice(&["True", "False", "Unknown"])),
            ("type", json!({ "type": "string", "maxLength": 316 })),
        ]),
        &["lastTransitionTime", "message", "reason", "status", "type"],
    );
    keyed(&condition, &["type"])
}

/// The conditions of OpenShift's operators: looser than `metav1.Condition`, a reason may be a
/// sentence.
pub(super) fn operator_conditions() -> Value {
    let condition = requiring(
        object([
            ("lastTransitionTime", time()),
            ("message", text()),
            ("reason", text()),
            ("status", choice(&["True", "False", "Unknown"])),
            ("type", text()),
        ]),
        &["lastTransitionTime", "status", "type"],
    );
    keyed(&condition, &["type"])
}

/// Common fields of OpenShift's operator specs (`OperatorSpec`).
pub(super) fn operator_spec() -> Value {
    let level = defaulted(
        choice(&["", "Normal", "Debug", "Trace", "TraceAll"]),
        &json!("Normal"),
    );
    let raw = with(anything(), json!({ "nullable": true }));
    object([
        (
            "managementState",
            json!({ "type": "string", "pattern": "^(Managed|Unmanaged|Force|Removed)$" }),
        ),
        ("logLevel", level.clone()),
        ("operatorLogLevel", level),
        ("observedConfig", raw.clone()),
        ("unsupportedConfigOverrides", raw),
    ])
}

/// Common fields of OpenShift's operator statuses (`OperatorStatus`).
pub(super) fn operator_status() -> Value {
    object([
        ("conditions", operator_conditions()),
        ("observedGeneration", int64()),
        ("readyReplicas", int32()),
        ("version", text()),
    ])
}

/// An object with the fields of both.
pub(super) fn merged(mut left: Value, right: Value) -> Value {
    let Value::Object(right) = right else {
        return left;
    };
    for (keyword, value) in right {
        match (left.get_mut(&keyword).and_then(Value::as_object_mut), value) {
            (Some(fields), Value::Object(more)) => fields.extend(more),
            (_, value) => left[keyword] = value,
        }
    }
    left
}

/// Printer column with the age of an object.
pub(super) const AGE: (&str, &str, &str) = ("Age", "date", ".metadata.creationTimestamp");

/// Printer column with the phase of an object.
pub(super) const PHASE: (&str, &str, &str) = ("Phase", "string", ".status.phase");

/// Names and scope of a kind.
pub(super) struct Names {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
    namespaced: bool,
}

impl Names {
    /// Names of a namespaced kind without short names.
    pub(super) fn new(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
    ) -> Self {
        Self {
            group,
            version,
            kind,
            plural,
            short: &[],
            namespaced: true,
        }
    }

    pub(super) fn short(self, short: &'static [&'static str]) -> Self {
        Self { short, ..self }
    }

    pub(super) fn cluster_wide(self) -> Self {
        Self {
            namespaced: false,
            ..self
        }
    }
}

/// A CRD with one version and a status subresource.
pub(super) fn definition(
    names: &Names,
    mut schema: Value,
    columns: &[(&str, &str, &str)],
) -> Value {
    for name in ["apiVersion", "kind"] {
        schema["properties"][name] = text();
    }
    schema["properties"]["metadata"] = json!({ "type": "object" });
    let columns: Vec<Value> = columns.iter().chain([&AGE]).map(column).collect();
    let Names {
        group,
        version,
        kind,
        plural,
        short,
        namespaced,
    } = names;
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.{group}"),
            "annotations": { SIMULATED: "true" },
        },
        "spec": {
            "group": group,
            "names": {
                "kind": kind,
                "listKind": format!("{kind}List"),
                "plural": plural,
                "shortNames": short,
                "singular": kind.to_lowercase(),
            },
            "scope": if *namespaced { "Namespaced" } else { "Cluster" },
            "versions": [{
                "name": version,
                "served": true,
                "storage": true,
                "schema": { "openAPIV3Schema": schema },
                "additionalPrinterColumns": columns,
                "subresources": { "status": {} },
            }],
        },
    })
}

/// The CRD without the status subresource: the status is written like any other field.
pub(super) fn without_status(mut definition: Value) -> Value {
    if let Some(version) = definition["spec"]["versions"][0].as_object_mut() {
        version.remove("subresources");
    }
    definition
}

/// The CRD with exactly these printer columns.
pub(super) fn with_columns(mut definition: Value, columns: &[(&str, &str, &str)]) -> Value {
    let columns: Vec<Value> = columns.iter().map(column).collect();
    definition["spec"]["versions"][0]["additionalPrinterColumns"] = json!(columns);
    definition
}

/// The CRD in the category `all`, which `kubectl get all` lists.
pub(super) fn among_all(mut definition: Value) -> Value {
    definition["spec"]["names"]["categories"] = json!(["all"]);
    definition
}

fn column((name, kind, path): &(&str, &str, &str)) -> Value {
    json!({ "name": name, "type": kind, "jsonPath": path })
}
