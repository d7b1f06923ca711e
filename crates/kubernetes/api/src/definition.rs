//! What the CustomResourceDefinitions of Medley's kinds have in common: cluster scope, one version, a
//! status subresource, and conditions.

#[cfg(test)]
pub(crate) mod checks;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

/// The digest of an image or of a plan.
pub(crate) const DIGEST: &str = "^sha256:[0-9a-f]{64}$";

/// The parameters of a CRD.
pub(crate) struct Definition<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) plural: &'a str,
    pub(crate) short: &'a [&'a str],
    /// The description shown by `kubectl explain`.
    pub(crate) description: &'a str,
    /// The columns of `kubectl get` besides name and age: titles and JSON paths.
    pub(crate) columns: &'a [(&'a str, &'a str)],
    /// The CEL rule for the name, and the message if it is violated.
    pub(crate) name: (String, String),
    /// The schema of `spec`.
    pub(crate) spec: Value,
    /// The schema of `status`; null for a kind without a status.
    pub(crate) status: Value,
}

impl Definition<'_> {
    /// Builds the CRD.
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
        // The JSON above is a valid CRD, as the tests of every kind prove; an empty one would be
        // rejected by any API server.
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

/// The name rule and message of a kind of which only one object is used.
pub(crate) fn only(kind: &str, name: &str) -> (String, String) {
    (
        format!("self.metadata.name == '{name}'"),
        format!("{kind} is a singleton: metadata.name must be '{name}'"),
    )
}

/// The schema of maintenance windows, shared by VirtPlatformConfig and ApprovalPolicy.
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
                "schedule": { "description": "When the window opens, as a cron schedule with five fields.", "type": "string", "minLength": 1 },
                "duration": { "description": "How long the window stays open, as a Go duration such as 4h.", "type": "string", "minLength": 1 },
                "timeZone": { "description": "The time zone of the schedule, as an IANA name such as Europe/Rome. Defaults to UTC.", "type": "string" },
            },
        },
    })
}

/// The schema of `metav1.Condition` lists.
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
