//! What the definitions of our kinds have in common: they are about the whole cluster, have one version,
//! a status that is written by itself, and conditions in it.

#[cfg(test)]
pub(crate) mod checks;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

/// A digest, of an image or of a plan.
pub(crate) const DIGEST: &str = "^sha256:[0-9a-f]{64}$";

/// A kind, and what the API server is to accept as one.
pub(crate) struct Definition<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) plural: &'a str,
    pub(crate) short: &'a [&'a str],
    /// What it is for.
    pub(crate) description: &'a str,
    /// What `kubectl get` shows besides name and age: titles, and the texts to show.
    pub(crate) columns: &'a [(&'a str, &'a str)],
    /// What its name has to be, in CEL, and what is said of any other.
    pub(crate) name: (String, String),
    /// The schema of what is asked for.
    pub(crate) spec: Value,
    /// The schema of what is seen; null for a kind without a status.
    pub(crate) status: Value,
}

impl Definition<'_> {
    /// As an API server takes it.
    pub(crate) fn build(self) -> CustomResourceDefinition {
        let Self {
            group,
            version,
            kind,
            plural,
            ..
        } = self;
        let mut names = json!({
            "kind": kind,
            "listKind": format!("{kind}List"),
            "plural": plural,
            "singular": kind.to_lowercase(),
        });
        if !self.short.is_empty() {
            names["shortNames"] = json!(self.short);
        }
        let column = |(name, path): &(&str, &str)| json!({ "name": name, "type": "string", "jsonPath": path });
        let mut columns: Vec<Value> = self.columns.iter().map(column).collect();
        columns.push(
            json!({ "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" }),
        );
        let has_status = !self.status.is_null();
        let mut definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{plural}.{group}") },
            "spec": {
                "group": group,
                "names": names,
                "scope": "Cluster",
                "versions": [{
                    "name": version,
                    "served": true,
                    "storage": true,
                    "additionalPrinterColumns": columns,
                    "schema": { "openAPIV3Schema": self.schema() },
                }],
            },
        });
        if has_status {
            definition["spec"]["versions"][0]["subresources"] = json!({ "status": {} });
        }
        // The text above is a definition, as the tests of every kind prove; an empty one would be
        // refused by any server.
        serde_json::from_value(definition).unwrap_or_default()
    }

    fn schema(self) -> Value {
        let (rule, message) = self.name;
        let mut schema = json!({
            "description": self.description,
            "type": "object",
            "required": ["spec"],
            "properties": {
                "apiVersion": { "type": "string" },
                "kind": { "type": "string" },
                "metadata": { "type": "object" },
                "spec": self.spec,
            },
            "x-kubernetes-validations": [{ "rule": rule, "message": message }],
        });
        if !self.status.is_null() {
            schema["properties"]["status"] = self.status;
        }
        schema
    }
}

/// The rule of a kind of which one object counts, and of what others are told.
pub(crate) fn only(kind: &str, name: &str) -> (String, String) {
    (
        format!("self.metadata.name == '{name}'"),
        format!("only one {kind} counts, and it is called '{name}'"),
    )
}

/// Maintenance windows, of a configuration and of a policy alike.
pub(crate) fn maintenance_windows(description: &str) -> Value {
    json!({
        "description": description,
        "type": "array",
        "maxItems": 32,
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "object",
            "required": ["schedule", "duration"],
            "properties": {
                "schedule": { "description": "When the window opens: a cron schedule of five fields.", "type": "string", "minLength": 1 },
                "duration": { "description": "How long it stays open: a Go duration such as 4h.", "type": "string", "minLength": 1 },
                "timeZone": { "description": "The clocks that count, as an IANA name such as Europe/Rome. Without it, UTC.", "type": "string" },
            },
        },
    })
}

/// `metav1.Condition`s, as `metav1` defines them.
pub(crate) fn conditions() -> Value {
    json!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "type": {
                    "type": "string",
                    "maxLength": 316,
                    "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                },
                "status": { "type": "string", "enum": ["True", "False", "Unknown"] },
                "reason": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "message": { "type": "string", "maxLength": 32768 },
                "lastTransitionTime": { "type": "string", "format": "date-time" },
                "observedGeneration": { "type": "integer", "format": "int64", "minimum": 0 },
            },
        },
    })
}
