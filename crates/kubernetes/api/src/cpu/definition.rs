//! The CustomResourceDefinition of CpuModelPolicy.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;

use super::{CpuModelPolicy, NAME};
use crate::definition::schema::{
    Schema, atomic_list, int_or_string, int32, int64, map_list, name, object, one_of, set, text,
};
use crate::definition::{Definition, conditions, only};

/// A model name that is valid in a label.
const MODEL: &str = r"^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$";

/// The CustomResourceDefinition.
pub fn definition() -> CustomResourceDefinition {
    let crd = Definition {
        short_names: &["cmp"],
        description: "CpuModelPolicy configures how CPU models are chosen for virtual machines. Only the object named default is used; without it, the field defaults apply.",
        columns: &[
            ("Since", ".spec.minimalLaunchYear"),
            ("Bias", ".spec.bias"),
            ("Stale", ".status.machines.stale"),
            ("Stranded", ".status.machines.stranded"),
        ],
        name: only("CpuModelPolicy", NAME),
        spec: spec(),
        status: Some(status()),
    };
    crd.build::<CpuModelPolicy>()
}

fn spec() -> Schema {
    let nodes = object(json!({
        "unschedulable": counted("Nodes that are cordoned or lack the label kubevirt.io/schedulable=true."),
        "notReady": counted("Nodes that are not Ready."),
        "tainted": counted("Nodes with taints that the virtual machine does not tolerate."),
    }));
    let spec = object(json!({
        "minimalLaunchYear": int32().range(1970, 2200).default(2007)
            .about("The earliest launch year of models that may be chosen."),
        "threshold": threshold(),
        "nodes": nodes.about("Which nodes count as eligible for a virtual machine. The node it runs on always counts."),
        "bias": one_of(["Newest", "Widest"]).default("Newest")
            .about("What is preferred among the models that enough nodes support: the latest launch year (Newest) or the most nodes (Widest)."),
        "foreignVendors": one_of(["Exclude", "LastResort"]).default("Exclude")
            .about("How models of another vendor than the node's are treated: never chosen (Exclude), or chosen only if no other model is suitable (LastResort)."),
        "models": map_list(&["name"], model()).max_items(256)
            .about("Models missing from the built-in table, or overrides of its entries."),
        "excludedModels": set(name(63).pattern(MODEL)).max_items(256).about("Models that are never chosen."),
    }));
    spec.about("The desired configuration.")
}

fn threshold() -> Schema {
    let limit = || int32().range(1, 100_000);
    // The pattern is for strings, the rule for numbers.
    let support = int_or_string().pattern("^(100|[1-9][0-9]?)%$").rule(
        "type(self) != int || (self >= 1 && self <= 100000)",
        "a number of nodes is 1 or more",
    );
    let threshold = object(json!({
        "support": support
            .about("The required number of nodes, such as 4, or a percentage of the eligible nodes, such as 25%, rounded down. Defaults to a third of the eligible nodes."),
        "minimum": limit().about("The lower bound of a percentage, in nodes. Defaults to 2."),
        "maximum": limit().about("The upper bound of a percentage, in nodes. Defaults to 5 if support is not set, else to no limit."),
    }));
    threshold
        .about("How many nodes have to support a model before it is chosen. Defaults to a third of the eligible nodes, at least 2 and at most 5.")
        .rule(
            "!has(self.minimum) || !has(self.maximum) || self.minimum <= self.maximum",
            "minimum must not be more than maximum",
        )
        .rule(
            "!has(self.support) || type(self.support) != int || (!has(self.minimum) && !has(self.maximum))",
            "minimum and maximum are the limits of a share; support is a number of nodes",
        )
}

fn model() -> Schema {
    let model = object(json!({
        "name": name(63).pattern(MODEL).about("The libvirt name of the model."),
        "launchYear": int32().range(1970, 2200).about("The launch year."),
        "vendor": name(63).pattern(MODEL).about("The vendor as in node labels, such as Intel or AMD."),
        "generation": int32().range(0, 100_000)
            .about("The order among models of the same launch year and vendor; higher is newer."),
    }));
    model.required(&["name"]).about("A model.").rule(
        "has(self.launchYear) || has(self.vendor) || has(self.generation)",
        "say at least one of launchYear, vendor and generation",
    )
}

fn counted(description: &str) -> Schema {
    one_of(["Ignore", "Count"]).default("Ignore").about(&format!(
        "{description} Ignore excludes them; Count includes them, as they are expected to become available again."
    ))
}

fn status() -> Schema {
    let group = object(json!({
        "architecture": text(), "vendor": text(), "hostModel": text(), "nodes": int32(), "newestModel": text(),
    }));
    let machines = object(json!({
        "resolved": int32(), "hostModel": int32(), "stale": int32(), "stranded": int32(),
    }));
    let status = object(json!({
        "observedGeneration": int64(),
        "conditions": conditions(),
        "groups": atomic_list(group.required(&["nodes"]))
            .about("Nodes with the same architecture, vendor and host model."),
        "machines": machines.required(&["resolved", "hostModel", "stale", "stranded"])
            .about("The virtual machines whose CPU model Medley chooses."),
        "unknownModels": atomic_list(text()).max_items(256)
            .about("Models that nodes support but that are in neither the built-in table nor spec.models."),
    }));
    status.about("The observed state.")
}
