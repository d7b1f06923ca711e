//! Nodes.

use std::collections::BTreeSet;

use jiff::Timestamp;
use machinery::field::FieldError;
use serde_json::{Value, json};

use crate::builtin::entry::{AGE, Capabilities, Column, Entry, Errors, NAME, column, wide};
use crate::builtin::pod_spec::scheduling;
use crate::builtin::value::{Read, existing, fill, set};
use crate::builtin::{check, ip, layout, print, resources};
use crate::kind::Part;

/// The kind. New nodes keep the status they come with: kubelets register with one.
pub(crate) const ENTRY: Entry = Entry {
    short_names: &["no"],
    namespaced: false,
    capabilities: Capabilities {
        status: true,
        ..Capabilities::NONE
    },
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
    cells,
    ..Entry::new("", "v1", "Node", "nodes", "node")
};

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "Status",
        "string",
        "Whether the node is ready and takes pods",
    ),
    column("Roles", "string", "Roles from the node's labels"),
    AGE,
    column("Version", "string", "Version of the kubelet"),
    wide("Internal-IP", "string", "Address inside the cluster"),
    wide("External-IP", "string", "Address outside the cluster"),
    wide("OS-Image", "string", "Operating system image"),
    wide(
        "Kernel-Version",
        "string",
        "Kernel version and architecture",
    ),
    wide(
        "Container-Runtime",
        "string",
        "Container runtime and its version",
    ),
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
            let path = check::path("status").child(list).child(name);
            errors.extend(resources::check_amount(&path, name, value));
        }
    }
    errors
}

fn validate(node: &Value) -> Errors {
    // Upstream reports taints under metadata, where they once were annotations.
    let mut errors =
        scheduling::check_taints(&check::path("metadata.taints"), node.items("spec.taints"));
    errors.extend(check_resources(node));
    let path = check::path("spec.podCIDRs");
    let ranges = node.texts("spec.podCIDRs");
    for (i, range) in ranges.iter().enumerate() {
        errors.extend(ip::check_cidr(&path.index(i), range, &[]));
    }
    if ranges.len() > 1 {
        let v6 = ranges.iter().filter(|range| range.contains(':')).count();
        if ranges.len() > 2 || v6 != 1 {
            let detail = "may specify no more than one CIDR for each IP family";
            errors.push(FieldError::invalid(
                &path,
                node.at("spec.podCIDRs").clone(),
                detail,
            ));
        }
    }
    errors
}

fn validate_update(new: &Value, old: &Value, _: Part<'_>) -> Errors {
    let mut errors = check_resources(new);
    let mut seen = Vec::new();
    for (i, address) in new.items("status.addresses").iter().enumerate() {
        if seen.contains(&address) {
            let path = check::path("status.addresses").index(i);
            errors.push(layout::duplicate(&path, "NodeAddress", address));
        }
        seen.push(address);
    }
    let (ranges, before) = (new.items("spec.podCIDRs"), old.items("spec.podCIDRs"));
    if !before.is_empty() {
        let path = check::path("spec.podCIDRs");
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
        errors.extend((0..changes).map(|_| FieldError::forbidden(&path, detail)));
    }
    let before = old.text("spec.providerID");
    if !before.is_empty() && before != new.text("spec.providerID") {
        let detail = "node updates may not change providerID except from \"\" to valid";
        errors.push(FieldError::forbidden(
            &check::path("spec.providerID"),
            detail,
        ));
    }
    errors.extend(scheduling::check_taints(
        &check::path("metadata.taints"),
        new.items("spec.taints"),
    ));
    if new.text("spec.externalID") != old.text("spec.externalID") {
        errors.push(FieldError::forbidden(
            &check::path("spec.externalID"),
            "may not be updated",
        ));
    }
    errors
}

fn cells(node: &Value, now: Timestamp) -> Vec<Value> {
    let ready = node
        .items("status.conditions")
        .iter()
        .rev()
        .find(|c| c.text("type") == "Ready");
    let mut status = match ready.map(|condition| condition.text("status")) {
        Some("True") => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if node.is_true("spec.unschedulable") {
        status.push_str(",SchedulingDisabled");
    }
    let mut roles = BTreeSet::new();
    for (key, value) in node.entries("metadata.labels") {
        let role = match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => role,
            None if key == "kubernetes.io/role" => value.as_str().unwrap_or_default(),
            None => "",
        };
        if !role.is_empty() {
            roles.insert(role);
        }
    }
    let roles = roles.into_iter().collect::<Vec<_>>().join(",");
    let address = |kind: &str| {
        let found = node
            .items("status.addresses")
            .iter()
            .find(|a| a.text("type") == kind);
        print::or(found.map_or("<none>", |a| a.text("address")), "")
    };
    let info = node.at("status.nodeInfo");
    let known = |field: &str| print::or(info.text(field), "<unknown>");
    let mut kernel = known("kernelVersion")
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let architecture = info.text("architecture");
    if !architecture.is_empty() {
        kernel = format!("{kernel} ({architecture})");
    }
    vec![
        node.name().into(),
        status.into(),
        print::or(&roles, "<none>"),
        print::age(node, now),
        info.text("kubeletVersion").into(),
        address("InternalIP"),
        address("ExternalIP"),
        known("osImage"),
        kernel.into(),
        known("containerRuntimeVersion"),
    ]
}
