//! What the API server accepts as a CpuModelPolicy.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::{GROUP, NAME, PLURAL, VERSION};
use crate::definition::{Definition, conditions, only};

/// A model as a label can name it.
const MODEL: &str = r"^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$";

/// The definition of the kind.
pub fn definition() -> CustomResourceDefinition {
    let kind = Definition {
        group: GROUP,
        version: VERSION,
        kind: "CpuModelPolicy",
        plural: PLURAL,
        short: &["cmp"],
        description: "CpuModelPolicy says how CPU models are chosen for virtual machines. Only the object called default counts; without it, the defaults of the fields do.",
        columns: &[
            ("Since", ".spec.minimalLaunchYear"),
            ("Bias", ".spec.bias"),
            ("Stale", ".status.machines.stale"),
            ("Stranded", ".status.machines.stranded"),
        ],
        name: only("CpuModelPolicy", NAME),
        spec: spec(),
        status: status(),
    };
    kind.build()
}

fn spec() -> Value {
    json!({
        "description": "What is asked for.",
        "type": "object",
        "properties": {
            "minimalLaunchYear": {
                "description": "The oldest launch year that a model may have.",
                "type": "integer", "format": "int32", "minimum": 1970, "maximum": 2200, "default": 2007,
            },
            "threshold": threshold(),
            "nodes": {
                "description": "Which nodes count as places where a machine can go. The node that it runs on always does.",
                "type": "object",
                "properties": {
                    "unschedulable": counted("Nodes that are cordoned, or where kubevirt.io/schedulable is not true."),
                    "notReady": counted("Nodes that are not Ready."),
                    "tainted": counted("Nodes with taints that the machine does not tolerate."),
                },
            },
            "bias": {
                "description": "What counts more among the models that enough nodes support: the launch year (Newest) or the number of nodes (Widest).",
                "type": "string", "enum": ["Newest", "Widest"], "default": "Newest",
            },
            "foreignVendors": {
                "description": "What is done with models of another vendor than that of the node: never chosen (Exclude), or chosen if no other model will do (LastResort).",
                "type": "string", "enum": ["Exclude", "LastResort"], "default": "Exclude",
            },
            "models": {
                "description": "Models that the built-in table does not know, or knows differently.",
                "type": "array",
                "maxItems": 256,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": model(),
            },
            "excludedModels": {
                "description": "Models that are never chosen.",
                "type": "array",
                "maxItems": 256,
                "x-kubernetes-list-type": "set",
                "items": { "type": "string", "minLength": 1, "maxLength": 63, "pattern": MODEL },
            },
        },
    })
}

fn threshold() -> Value {
    let limit = |description: &str| json!({ "description": description, "type": "integer", "format": "int32", "minimum": 1, "maximum": 100_000 });
    json!({
        "description": "How many nodes have to support a model. Without any of it: a third of the nodes that are eligible, at least 2 and at most 5.",
        "type": "object",
        "properties": {
            "support": {
                "description": "A number of nodes such as 4, or a share of the nodes that are eligible such as 25%, rounded down. Without it: a third.",
                "anyOf": [{ "type": "integer" }, { "type": "string" }],
                "x-kubernetes-int-or-string": true,
                "pattern": "^(100|[1-9][0-9]?)%$",
                "x-kubernetes-validations": [{
                    "rule": "type(self) != int || (self >= 1 && self <= 100000)",
                    "message": "a number of nodes is 1 or more",
                }],
            },
            "minimum": limit("The least that a share comes to; 2 if it is not given."),
            "maximum": limit("The most that a share comes to. If it is not given: 5 for the share of a third, no limit for another."),
        },
        "x-kubernetes-validations": [
            {
                "rule": "!has(self.minimum) || !has(self.maximum) || self.minimum <= self.maximum",
                "message": "minimum must not be more than maximum",
            },
            {
                "rule": "!has(self.support) || type(self.support) != int || (!has(self.minimum) && !has(self.maximum))",
                "message": "minimum and maximum are the limits of a share; support is a number of nodes",
            },
        ],
    })
}

fn model() -> Value {
    json!({
        "description": "A model.",
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": { "description": "What libvirt calls it.", "type": "string", "minLength": 1, "maxLength": 63, "pattern": MODEL },
            "launchYear": { "description": "When it was launched.", "type": "integer", "format": "int32", "minimum": 1970, "maximum": 2200 },
            "vendor": { "description": "Its vendor, as in the labels of nodes: Intel, AMD.", "type": "string", "minLength": 1, "maxLength": 63, "pattern": MODEL },
            "generation": { "description": "Its place among models of the same year and vendor: higher is newer.", "type": "integer", "format": "int32", "minimum": 0, "maximum": 100_000 },
        },
        "x-kubernetes-validations": [{
            "rule": "has(self.launchYear) || has(self.vendor) || has(self.generation)",
            "message": "say at least one of launchYear, vendor and generation",
        }],
    })
}

fn counted(description: &str) -> Value {
    let description =
        format!("{description} They do not count (Ignore), or they are expected back (Count).");
    json!({ "description": description, "type": "string", "enum": ["Ignore", "Count"], "default": "Ignore" })
}

fn status() -> Value {
    let text = json!({ "type": "string" });
    let count = json!({ "type": "integer", "format": "int32" });
    json!({
        "description": "What is seen.",
        "type": "object",
        "properties": {
            "observedGeneration": { "type": "integer", "format": "int64" },
            "conditions": conditions(),
            "groups": {
                "description": "Nodes with the same architecture, vendor and host model.",
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["nodes"],
                    "properties": {
                        "architecture": text, "vendor": text, "hostModel": text,
                        "nodes": count, "newestModel": text,
                    },
                },
            },
            "machines": {
                "description": "How the machines that leave the choice to Medley fare.",
                "type": "object",
                "required": ["resolved", "hostModel", "stale", "stranded"],
                "properties": {
                    "resolved": count, "hostModel": count, "stale": count, "stranded": count,
                },
            },
            "unknownModels": {
                "description": "Models that nodes support and that no table knows.",
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "maxItems": 256,
                "items": text,
            },
        },
    })
}
