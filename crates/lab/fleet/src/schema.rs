//! Building blocks of CRDs and their schemas, for the kinds of simulated components.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use runtime::Error;
use serde_json::{Map, Value, json};

pub(crate) fn text() -> Value {
    json!({ "type": "string" })
}

pub(crate) fn boolean() -> Value {
    json!({ "type": "boolean" })
}

pub(crate) fn time() -> Value {
    json!({ "type": "string", "format": "date-time" })
}

pub(crate) fn int32() -> Value {
    json!({ "type": "integer", "format": "int32" })
}

pub(crate) fn int64() -> Value {
    json!({ "type": "integer", "format": "int64" })
}

pub(crate) fn choice(of: &[&str]) -> Value {
    json!({ "type": "string", "enum": of })
}

pub(crate) fn int_or_text() -> Value {
    json!({
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "x-kubernetes-int-or-string": true,
    })
}

/// An object without a schema.
pub(crate) fn anything() -> Value {
    json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// An object with a partial schema: unknown fields are preserved.
pub(crate) fn open(schema: Value) -> Value {
    with(
        schema,
        json!({ "x-kubernetes-preserve-unknown-fields": true }),
    )
}

/// A map of strings.
pub(crate) fn text_map() -> Value {
    json!({ "type": "object", "additionalProperties": { "type": "string" } })
}

pub(crate) fn list(items: &Value) -> Value {
    json!({ "type": "array", "items": items })
}

/// A list owned by one field manager (`x-kubernetes-list-type: atomic`).
pub(crate) fn atomic(items: &Value) -> Value {
    json!({ "type": "array", "items": items, "x-kubernetes-list-type": "atomic" })
}

/// A list whose entries have keys (`x-kubernetes-list-type: map`).
pub(crate) fn keyed(items: &Value, keys: &[&str]) -> Value {
    json!({
        "type": "array",
        "items": items,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": keys,
    })
}

/// An object with these fields. A key names all fields with that schema, separated by spaces; `!` marks
/// the required ones.
pub(crate) fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for (names, schema) in fields {
        for name in names.split_whitespace() {
            let plain = name.trim_end_matches('!');
            if plain != name {
                required.push(plain);
            }
            properties.insert(plain.to_owned(), schema.clone());
        }
    }
    let mut object = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        object["required"] = json!(required);
    }
    object
}

/// A schema with additional keywords.
pub(crate) fn with(mut schema: Value, keywords: Value) -> Value {
    if let (Some(schema), Value::Object(keywords)) = (schema.as_object_mut(), keywords) {
        schema.extend(keywords);
    }
    schema
}

/// A field that may be null.
pub(crate) fn nullable(schema: Value) -> Value {
    with(schema, json!({ "nullable": true }))
}

/// A schema with validation rules in CEL: the rules and their messages.
pub(crate) fn validated(schema: Value, rules: &[(&str, &str)]) -> Value {
    let rules = rules
        .iter()
        .map(|(rule, message)| json!({ "rule": rule, "message": message }));
    let rules: Vec<Value> = rules.collect();
    with(schema, json!({ "x-kubernetes-validations": rules }))
}

/// The root schema of most kinds: spec and status.
pub(crate) fn spec_and_status(spec: Value, status: Value) -> Value {
    object([("spec!", spec), ("status", status)])
}

/// A singleton kind whose object is named `cluster`.
pub(crate) fn only_cluster(schema: Value, kind: &str) -> Value {
    let message = format!("there is one {kind}, and its name must be cluster");
    validated(schema, &[("self.metadata.name == 'cluster'", &message)])
}

/// An object template of another kind.
pub(crate) fn embedded(spec: Value) -> Value {
    object([
        ("apiVersion kind", text()),
        ("metadata status", anything()),
        ("spec", spec),
    ])
}

/// A schema with defaults for its fields, which also apply when the object is omitted.
pub(crate) fn defaulted(schema: Value, default: impl Into<Value>) -> Value {
    with(schema, json!({ "default": default.into() }))
}

/// `metav1.LabelSelector`.
pub(crate) fn label_selector() -> Value {
    let expression = object([("key! operator!", text()), ("values", atomic(&text()))]);
    let fields = [
        ("matchExpressions", atomic(&expression)),
        ("matchLabels", text_map()),
    ];
    with(object(fields), json!({ "x-kubernetes-map-type": "atomic" }))
}

/// `corev1.ObjectReference`.
pub(crate) fn reference() -> Value {
    let fields = "apiVersion fieldPath kind name namespace resourceVersion uid";
    with(
        object([(fields, text())]),
        json!({ "x-kubernetes-map-type": "atomic" }),
    )
}

/// `metav1.Condition`.
pub(crate) fn conditions() -> Value {
    let text = |keywords: Value| with(text(), keywords);
    let reason = json!({
        "maxLength": 1024,
        "minLength": 1,
        "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
    });
    let condition = object([
        ("lastTransitionTime!", time()),
        ("message!", text(json!({ "maxLength": 32768 }))),
        ("observedGeneration", with(int64(), json!({ "minimum": 0 }))),
        ("reason!", text(reason)),
        ("status!", choice(&["True", "False", "Unknown"])),
        ("type!", text(json!({ "maxLength": 316 }))),
    ]);
    keyed(&condition, &["type"])
}

/// The conditions of OpenShift's operators: looser than `metav1.Condition`, a reason may be a
/// sentence.
pub(crate) fn operator_conditions() -> Value {
    let condition = object([
        ("lastTransitionTime!", time()),
        ("message reason type!", text()),
        ("status!", choice(&["True", "False", "Unknown"])),
    ]);
    keyed(&condition, &["type"])
}

/// Common fields of OpenShift's operator specs (`OperatorSpec`).
pub(crate) fn operator_spec() -> Value {
    let level = choice(&["", "Normal", "Debug", "Trace", "TraceAll"]);
    let state = json!({ "pattern": "^(Managed|Unmanaged|Force|Removed)$" });
    object([
        ("managementState", with(text(), state)),
        ("logLevel operatorLogLevel", defaulted(level, "Normal")),
        (
            "observedConfig unsupportedConfigOverrides",
            nullable(anything()),
        ),
    ])
}

/// Common fields of OpenShift's operator statuses (`OperatorStatus`).
pub(crate) fn operator_status() -> Value {
    object([
        ("conditions", operator_conditions()),
        ("generations", list(&generations())),
        ("observedGeneration", int64()),
        ("readyReplicas", int32()),
        ("version", text()),
    ])
}

/// The versions of objects that an OpenShift operator wrote.
fn generations() -> Value {
    object([
        ("group hash name namespace resource", text()),
        ("lastGeneration", int64()),
    ])
}

/// An object with the fields of both.
pub(crate) fn merged(mut left: Value, right: Value) -> Value {
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

/// Printer columns, as `NAME[:TYPE] JSONPATH`; the type is `string` by default.
pub(crate) const AGE: &str = "Age:date .metadata.creationTimestamp";
pub(crate) const PHASE: &str = "Phase .status.phase";

/// A CRD with one version.
pub(crate) struct Crd(Value);

impl Crd {
    /// The CRD of a namespaced kind with a status subresource. The plural is the lower-case kind with an
    /// `s`, or with `es` after an `s`, which holds for all simulated kinds.
    pub(crate) fn new(group: &str, version: &str, kind: &str, mut schema: Value) -> Self {
        for name in ["apiVersion", "kind"] {
            schema["properties"][name] = text();
        }
        schema["properties"]["metadata"] = json!({ "type": "object" });
        let singular = kind.to_lowercase();
        let ending = if kind.ends_with('s') { "es" } else { "s" };
        let plural = format!("{singular}{ending}");
        Self(json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{plural}.{group}") },
            "spec": {
                "group": group,
                "names": {
                    "kind": kind,
                    "listKind": format!("{kind}List"),
                    "plural": plural,
                    "singular": singular,
                },
                "scope": "Namespaced",
                "versions": [{
                    "name": version,
                    "served": true,
                    "storage": true,
                    "schema": { "openAPIV3Schema": schema },
                    "subresources": { "status": {} },
                }],
            },
        }))
        .columns(&[AGE])
    }

    pub(crate) fn short(mut self, names: &[&str]) -> Self {
        self.0["spec"]["names"]["shortNames"] = json!(names);
        self
    }

    pub(crate) fn cluster_wide(mut self) -> Self {
        self.0["spec"]["scope"] = json!("Cluster");
        self
    }

    /// Puts the kind into the category `all`, which `kubectl get all` lists.
    pub(crate) fn among_all(mut self) -> Self {
        self.0["spec"]["names"]["categories"] = json!(["all"]);
        self
    }

    /// Removes the status subresource: the status is written like any other field.
    pub(crate) fn without_status(mut self) -> Self {
        if let Some(version) = self.0["spec"]["versions"][0].as_object_mut() {
            version.remove("subresources");
        }
        self
    }

    /// Sets the printer columns.
    pub(crate) fn columns(mut self, columns: &[&str]) -> Self {
        let columns: Vec<Value> = columns.iter().map(|it| column(it)).collect();
        self.0["spec"]["versions"][0]["additionalPrinterColumns"] = json!(columns);
        self
    }

    /// Adds printer columns that only `-o wide` shows.
    pub(crate) fn wide_columns(mut self, columns: &[&str]) -> Self {
        let wide = columns
            .iter()
            .map(|it| with(column(it), json!({ "priority": 1 })));
        let all = &mut self.0["spec"]["versions"][0]["additionalPrinterColumns"];
        if let Some(all) = all.as_array_mut() {
            all.extend(wide);
        }
        self
    }

    pub(crate) fn annotated(mut self, key: &str, value: &str) -> Self {
        self.0["metadata"]["annotations"] = json!({ key: value });
        self
    }

    /// The typed CRD.
    pub(crate) fn build(self) -> Result<CustomResourceDefinition, Error> {
        let name = self.0["metadata"]["name"].to_string();
        serde_json::from_value(self.0)
            .map_err(|error| Error::Invalid(format!("CRD {name}: {error}")))
    }
}

fn column(text: &str) -> Value {
    let (name, path) = text.split_once(' ').unwrap_or((text, ""));
    let (name, kind) = name.split_once(':').unwrap_or((name, "string"));
    json!({ "name": name, "type": kind, "jsonPath": path })
}
