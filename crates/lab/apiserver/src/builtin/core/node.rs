//! Nodes (`ValidateNode`).

use std::collections::BTreeSet;

use machinery::field::{FieldError, Path};
use serde_json::{Value, json};

use crate::builtin::entry::Capability::Status;
use crate::builtin::entry::Cell::{IfNotEmpty, Of, Text};
use crate::builtin::entry::{AGE, Column, Entry, Errors, NAME, column};
use crate::builtin::pod_spec::scheduling;
use crate::builtin::value::{Read, existing, fill, set};
use crate::builtin::{ip, layout, print, resources};
use crate::kind::Part;

/// The kind. New nodes keep the status they come with: kubelets register with one.
pub(crate) const ENTRY: Entry = Entry {
    short_names: &["no"],
    namespaced: false,
    capabilities: &[Status],
    default,
    prepare_create: |_, _| (),
    validate,
    validate_update,
    warnings: |node, _| {
        let mut warnings = Vec::new();
        if node.has("spec.configSource") {
            warnings.push("spec.configSource: the feature is removed".to_owned());
        }
        if !node.text("spec.externalID").is_empty() {
            let text = "spec.externalID: this field is deprecated, and is unused by Kubernetes";
            warnings.push(text.to_owned());
        }
        warnings
    },
    selectable: &[("spec.unschedulable", |node| {
        node.is_true("spec.unschedulable").to_string()
    })],
    columns: COLUMNS,
    ..Entry::new("", "v1", "Node", "nodes")
};

const COLUMNS: &[Column] = &[
    NAME,
    column!("Status" string Of(status) => "Whether the node is ready and schedulable"),
    column!("Roles" string Of(roles) => "Roles from the node's labels"),
    AGE,
    column!("Version" string Text("status.nodeInfo.kubeletVersion") => "Version of the kubelet"),
    column!("Internal-IP" wide Of(|node| address(node, "InternalIP"))
        => "Address inside the cluster"),
    column!("External-IP" wide Of(|node| address(node, "ExternalIP"))
        => "Address outside the cluster"),
    column!("OS-Image" wide IfNotEmpty("status.nodeInfo.osImage", "<unknown>")
        => "Operating system image"),
    column!("Kernel-Version" wide Of(|node| {
        let kernel = match node.text("status.nodeInfo.kernelVersion") {
            "" => "<unknown>",
            version => version,
        };
        match node.text("status.nodeInfo.architecture") {
            "" => kernel.into(),
            architecture => format!("{kernel} ({architecture})").into(),
        }
    }) => "Kernel version and architecture"),
    column!("Container-Runtime" wide
        IfNotEmpty("status.nodeInfo.containerRuntimeVersion", "<unknown>")
        => "Container runtime and its version"),
];

fn default(node: &mut Value) {
    if !node.has("status.allocatable") && node.has("status.capacity") {
        let capacity = node.at("status.capacity").clone();
        set(node, "status.allocatable", capacity);
    }
    for field in ["status.capacity", "status.allocatable"] {
        resources::round_up(existing(node, field).and_then(Value::as_object_mut));
    }
    // Go serializes these structs even when they are empty.
    fill(node, "spec", json!({}));
    fill(node, "status.daemonEndpoints.kubeletEndpoint.Port", 0);
    for field in [
        "machineID",
        "systemUUID",
        "bootID",
        "kernelVersion",
        "osImage",
        "containerRuntimeVersion",
        "kubeletVersion",
        "kubeProxyVersion",
        "operatingSystem",
        "architecture",
    ] {
        fill(node, &format!("status.nodeInfo.{field}"), "");
    }
    match (
        node.text("spec.podCIDR").to_owned(),
        node.texts("spec.podCIDRs").first(),
    ) {
        (single, None) if !single.is_empty() => set(node, "spec.podCIDRs", json!([single])),
        (single, Some(first)) if single.is_empty() => {
            let first = (*first).to_owned();
            set(node, "spec.podCIDR", first);
        }
        _ => {}
    }
}

fn check_resources(node: &Value) -> Errors {
    let mut errors = Errors::new();
    for list in ["capacity", "allocatable"] {
        for (name, value) in node.at("status").entries(list) {
            let path = Path::new("status").child(list).child(name);
            errors += resources::check_amount(&path, name, value);
        }
    }
    errors
}

fn validate(node: &Value) -> Errors {
    // Upstream reports taints under metadata, where they once were annotations.
    let mut errors =
        scheduling::check_taints(&Path::new("metadata.taints"), node.items("spec.taints"));
    errors += check_resources(node);
    let path = Path::new("spec.podCIDRs");
    let ranges = node.texts("spec.podCIDRs");
    for (i, range) in ranges.iter().enumerate() {
        errors += ip::check_cidr(&path.index(i), range, &[]);
    }
    if ranges.len() > 1 {
        let v6 = ranges.iter().filter(|range| range.contains(':')).count();
        if ranges.len() > 2 || v6 != 1 {
            let detail = "may specify no more than one CIDR for each IP family";
            errors.invalid(&path, node.at("spec.podCIDRs").clone(), detail);
        }
    }
    errors
}

fn validate_update(new: &Value, old: &Value, _: Part<'_>) -> Errors {
    let mut errors = check_resources(new);
    let mut seen = Vec::new();
    for (i, address) in new.items("status.addresses").iter().enumerate() {
        if seen.contains(&address) {
            let path = Path::new("status.addresses").index(i);
            errors.push(layout::duplicate(&path, "NodeAddress", address));
        }
        seen.push(address);
    }
    let (ranges, before) = (new.items("spec.podCIDRs"), old.items("spec.podCIDRs"));
    if !before.is_empty() {
        let path = Path::new("spec.podCIDRs");
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        let changes = if ranges.len() == before.len() {
            ranges
                .iter()
                .zip(before)
                .filter(|(new, old)| new != old)
                .count()
        } else {
            1
        };
        errors += (0..changes).map(|_| FieldError::forbidden(&path, detail));
    }
    let before = old.text("spec.providerID");
    if !before.is_empty() && before != new.text("spec.providerID") {
        let detail = "node updates may not change providerID except from \"\" to valid";
        errors.forbidden(&Path::new("spec.providerID"), detail);
    }
    errors += scheduling::check_taints(&Path::new("metadata.taints"), new.items("spec.taints"));
    if new.text("spec.externalID") != old.text("spec.externalID") {
        errors.forbidden(&Path::new("spec.externalID"), "may not be updated");
    }
    errors
}

fn status(node: &Value) -> Value {
    let conditions = node.items("status.conditions").iter();
    let ready = conditions.rev().find(|c| c.text("type") == "Ready");
    let status = match ready.map(|condition| condition.text("status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    if node.is_true("spec.unschedulable") {
        format!("{status},SchedulingDisabled").into()
    } else {
        status.into()
    }
}

fn roles(node: &Value) -> Value {
    let labels = node.entries("metadata.labels").into_iter();
    let roles = labels.filter_map(|(key, value)| match key {
        "kubernetes.io/role" => value.as_str(),
        _ => key.strip_prefix("node-role.kubernetes.io/"),
    });
    let roles: BTreeSet<&str> = roles.filter(|role| !role.is_empty()).collect();
    print::or(&roles.into_iter().collect::<Vec<_>>().join(","), "<none>")
}

fn address(node: &Value, kind: &str) -> Value {
    let addresses = node.items("status.addresses").iter();
    let mut found = addresses.filter(|address| address.text("type") == kind);
    found
        .next()
        .map_or("<none>", |found| found.text("address"))
        .into()
}
