//! The CustomResourceDefinition of CpuModelPolicy.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::{GROUP, NAME, PLURAL, VERSION};
use crate::definition::{Definition, conditions, only};

/// A model name that is valid in a label.
const MODEL: &str = r"^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$";

/// The CustomResourceDefinition.
pub fn definition() -> CustomResourceDefinition {
    let kind = Definition {
        group: GROUP,
        version: VERSION,
        kind: "CpuModelPolicy",
        plural: PLURAL,
        short: &["cmp"],
        description: "CpuModelPolicy configures how CPU models are chosen for virtual machines. Only the object named default is used; without it, the field defaults apply.",
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
        "description": "The desired configuration.",
        "type": "object",
        "properties": {
            "minimalLaunchYear": {
                "description": "The earliest launch year of models that may be chosen.",
                "type": "integer", "format": "int32", "minimum": 1970, "maximum": 2200, "default": 2007,
            },
            "threshold": threshold(),
            "nodes": {
                "description": "Which nodes count as eligible for a virtual machine. The node it runs on always counts.",
                "type": "object",
                "properties": {
                    "unschedulable": counted("Nodes that are cordoned or lack the label kubevirt.io/schedulable=true."),
                    "notReady": counted("Nodes that are not Ready."),
                    "tainted": counted("Nodes with taints that the virtual machine does not tolerate."),
                },
            },
            "bias": {
                "description": "What is preferred among the models that enough nodes support: the latest launch year (Newest) or the most nodes (Widest).",
                "type": "string", "enum": ["Newest", "Widest"], "default": "Newest",
            },
            "foreignVendors": {
                "description": "How models of another vendor than the node's are treated: never chosen (Exclude), or chosen only if no other model is suitable (LastResort).",
                "type": "string", "enum": ["Exclude", "LastResort"], "default": "Exclude",
            },
            "models": {
                "description": "Models missing from the built-in table, or overrides of its entries.",
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
        "description": "How many nodes have to support a model before it is chosen. Defaults to a third of the eligible nodes, at least 2 and at most 5.",
        "type": "object",
        "properties": {
            "support": {
                "description": "The required number of nodes, such as 4, or a percentage of the eligible nodes, such as 25%, rounded down. Defaults to a third of the eligible nodes.",
                "anyOf": [{ "type": "integer" }, { "type": "string" }],
                "x-kubernetes-int-or-string": true,
                "pattern": "^(100|[1-9][0-9]?)%$",
                "x-kubernetes-validations": [{
                    "rule": "type(self) != int || (self >= 1 && self <= 100000)",
                    "message": "a number of nodes is 1 or more",
                }],
            },
            "minimum": limit("The lower bound of a percentage, in nodes. Defaults to 2."),
            "maximum": limit("The upper bound of a percentage, in nodes. Defaults to 5 if support is not set, else to no limit."),
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
            "name": { "description": "The libvirt name of the model.", "type": "string", "minLength": 1, "maxLength": 63, "pattern": MODEL },
            "launchYear": { "description": "The launch year.", "type": "integer", "format": "int32", "minimum": 1970, "maximum": 2200 },
            "vendor": { "description": "The vendor as in node labels, such as Intel or AMD.", "type": "string", "minLength": 1, "maxLength": 63, "pattern": MODEL },
            "generation": { "description": "The order among models of the same launch year and vendor; higher is newer.", "type": "integer", "format": "int32", "minimum": 0, "maximum": 100_000 },
        },
        "x-kubernetes-validations": [{
            "rule": "has(self.launchYear) || has(self.vendor) || has(self.generation)",
            "message": "say at least one of launchYear, vendor and generation",
        }],
    })
}

fn counted(description: &str) -> Value {
    let description = format!(
        "{description} Ignore excludes them; Count includes them, as they are expected to become available again."
    );
    json!({ "description": description, "type": "string", "enum": ["Ignore", "Count"], "default": "Ignore" })
}

fn status() -> Value {
    let text = json!({ "type": "string" });
    let count = json!({ "type": "integer", "format": "int32" });
    json!({
        "description": "The observed state.",
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
                "description": "The virtual machines whose CPU model Medley chooses.",
                "type": "object",
                "required": ["resolved", "hostModel", "stale", "stranded"],
                "properties": {
                    "resolved": count, "hostModel": count, "stale": count, "stranded": count,
                },
            },
            "unknownModels": {
                "description": "Models that nodes support but that are in neither the built-in table nor spec.models.",
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "maxItems": 256,
                "items": text,
            },
        },
    })
}
