//! What the CustomResourceDefinitions of Medley's kinds have in common: cluster scope, one version, a
//! status subresource, and conditions.

#[cfg(test)]
pub(crate) mod checks;
pub(crate) mod schema;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::Resource;
use serde_json::{Value, json};

use schema::{Schema, atomic_list, int64, map_list, name, object, one_of, text, time};

/// The digest of an image or of a plan.
pub(crate) const DIGEST: &str = "^sha256:[0-9a-f]{64}$";
/// The pattern of a condition type: a label key.
const CONDITION_TYPE: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

/// The parameters of a CRD.
pub(crate) struct Definition<'a> {
    pub(crate) short_names: &'a [&'a str],
    /// The description shown by `kubectl explain`.
    pub(crate) description: &'a str,
    /// The columns of `kubectl get` besides name and age: titles and JSON paths.
    pub(crate) columns: &'a [(&'a str, &'a str)],
    /// The CEL rule for the name, and the message if it is violated.
    pub(crate) name: (String, String),
    pub(crate) spec: Schema,
    /// `None` for a kind without a status.
    pub(crate) status: Option<Schema>,
}

impl Definition<'_> {
    /// Builds the CRD of a kind.
    pub(crate) fn build<K: Resource<DynamicType = ()>>(self) -> CustomResourceDefinition {
        let (group, kind, plural) = (K::group(&()), K::kind(&()), K::plural(&()));
        let mut names = json!({
            "kind": kind,
            "listKind": format!("{kind}List"),
            "plural": plural,
            "singular": kind.to_lowercase(),
        });
        if !self.short_names.is_empty() {
            names["shortNames"] = json!(self.short_names);
        }
        let column = |(name, path): &(&str, &str)| json!({ "name": name, "type": "string", "jsonPath": path });
        let mut columns: Vec<Value> = self.columns.iter().map(column).collect();
        columns.push(
            json!({ "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" }),
        );
        let mut properties = json!({
            "apiVersion": text(),
            "kind": text(),
            // No more than the type: the API server validates metadata itself and rejects
            // schemas that restrict anything but names.
            "metadata": { "type": "object" },
            "spec": self.spec,
        });
        let mut version = json!({
            "name": K::version(&()),
            "served": true,
            "storage": true,
            "additionalPrinterColumns": columns,
        });
        if let Some(status) = self.status {
            properties["status"] = json!(status);
            version["subresources"] = json!({ "status": {} });
        }
        let schema = object(properties).about(self.description);
        let schema = schema.required(&["spec"]).rule(&self.name.0, &self.name.1);
        version["schema"] = json!({ "openAPIV3Schema": schema });
        // The JSON is a valid CRD, as the tests of every kind prove; an empty one would be rejected by
        // any API server.
        serde_json::from_value(json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{plural}.{group}") },
            "spec": { "group": group, "names": names, "scope": "Cluster", "versions": [version] },
        }))
        .unwrap_or_default()
    }
}

/// The name rule and message of a kind of which only one object is used.
pub(crate) fn only(kind: &str, name: &str) -> (String, String) {
    (
        format!("self.metadata.name == '{name}'"),
        format!("{kind} is a singleton: metadata.name must be '{name}'"),
    )
}

/// Maintenance windows, shared by VirtPlatformConfig and ApprovalPolicy.
pub(crate) fn maintenance_windows(description: &str) -> Schema {
    let required = || text().with("minLength", 1);
    let window = object(json!({
        "schedule": required().about("When the window opens, as a cron schedule with five fields."),
        "duration": required().about("How long the window stays open, as a Go duration such as 4h."),
        "timeZone": text().about("The time zone of the schedule, as an IANA name such as Europe/Rome. Defaults to UTC."),
    }));
    let windows = atomic_list(window.required(&["schedule", "duration"]));
    windows.max_items(32).about(description)
}

/// The schema of `metav1.Condition` lists.
pub(crate) fn conditions() -> Schema {
    // The lengths and patterns are those of `metav1.Condition` (`apimachinery/pkg/apis/meta/v1/types.go`), so that
    // generic clients such as `kubectl wait` can rely on them.
    let condition = object(json!({
        "type": text().with("maxLength", 316).pattern(CONDITION_TYPE),
        "status": one_of(["True", "False", "Unknown"]),
        "reason": name(1024).pattern("^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),
        "message": text().with("maxLength", 32768),
        "lastTransitionTime": time(),
        "observedGeneration": int64().with("minimum", 0),
    }));
    let required = ["lastTransitionTime", "message", "reason", "status", "type"];
    // A map by type: with an atomic list, two field managers could not write a condition each.
    map_list(&["type"], condition.required(&required))
}
