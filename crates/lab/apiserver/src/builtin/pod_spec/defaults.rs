//! Defaults of pod specs (`pkg/apis/core/v1/defaults.go`).

use serde_json::{Value, json};

use crate::builtin::resources;
use crate::builtin::value::{Read, existing, fill, fill_empty, items_mut, object_at, remove, set};

/// Defaults of a `PodTemplateSpec` at a path.
pub(crate) fn template(object: &mut Value, path: &str) {
    if let Some(template) = existing(object, path)
        && object_at(template, "spec").is_some()
        && let Some(spec) = existing(template, "spec")
    {
        pod_spec(spec);
    }
}

/// Defaults that hold for every pod spec.
pub(crate) fn pod_spec(spec: &mut Value) {
    fill_empty(spec, "dnsPolicy", "ClusterFirst");
    fill_empty(spec, "restartPolicy", "Always");
    fill(spec, "securityContext", json!({}));
    fill(spec, "terminationGracePeriodSeconds", 30);
    fill_empty(spec, "schedulerName", "default-scheduler");
    service_account(spec);
    for volume in items_mut(spec, "volumes") {
        volume_source(volume);
    }
    for field in super::CONTAINER_FIELDS {
        for container in items_mut(spec, field) {
            self::container(container);
        }
    }
    resources::round_up(existing(spec, "overhead").and_then(Value::as_object_mut));
    round_resources(spec);
}

/// Keeps the deprecated and the current field of the service account consistent.
fn service_account(spec: &mut Value) {
    let name = match spec.text("serviceAccountName") {
        "" => spec.text("serviceAccount"),
        name => name,
    }
    .to_owned();
    if name.is_empty() {
        remove(spec, "serviceAccountName");
        remove(spec, "serviceAccount");
    } else {
        set(spec, "serviceAccountName", name.as_str());
        set(spec, "serviceAccount", name);
    }
}

/// Defaults that only pods have, not templates.
pub(crate) fn pod_only(spec: &mut Value) {
    for field in ["containers", "initContainers"] {
        for container in items_mut(spec, field) {
            // Only in pods. In a template it would fix the requests at creation, and a later change
            // of the limits would leave them behind.
            requests_from_limits(container);
        }
    }
    pod_level_requests(spec);
    fill(spec, "enableServiceLinks", true);
    if spec.is_true("hostNetwork") {
        for field in ["containers", "initContainers"] {
            for container in items_mut(spec, field) {
                for port in items_mut(container, "ports") {
                    let number = port.at("containerPort").clone();
                    fill_empty(port, "hostPort", number);
                }
            }
        }
    }
}

/// Missing requests default to the limits.
fn requests_from_limits(container: &mut Value) {
    let Some(limits) = container.map("resources.limits").cloned() else {
        return;
    };
    if let Some(requests) = object_at(container, "resources.requests") {
        for (name, limit) in limits {
            requests.entry(name).or_insert(limit);
        }
    }
}

/// Pod-level requests follow the sum over containers, then the pod-level limits.
fn pod_level_requests(spec: &mut Value) {
    let Some(limits) = spec
        .map("resources.limits")
        .filter(|limits| !limits.is_empty())
        .cloned()
    else {
        return;
    };
    let supported = |name: &str| matches!(name, "cpu" | "memory") || resources::is_huge_page(name);
    let mut sums: Vec<(String, machinery::quantity::Quantity)> = Vec::new();
    let sidecars = spec
        .items("initContainers")
        .iter()
        .filter(|c| super::is_sidecar(c));
    for container in spec.items("containers").iter().chain(sidecars) {
        for (name, value) in container.entries("resources.requests") {
            let amount = resources::quantity(value);
            match sums.iter_mut().find(|(known, _)| known == name) {
                Some((_, sum)) => *sum = sum.checked_add(&amount).unwrap_or(amount),
                None => sums.push((name.to_owned(), amount)),
            }
        }
    }
    if let Some(requests) = object_at(spec, "resources.requests") {
        for (name, sum) in sums {
            if supported(&name) && resources::may_overcommit(&name) {
                requests
                    .entry(name)
                    .or_insert_with(|| sum.to_string().into());
            }
        }
        for (name, limit) in limits {
            if supported(&name) {
                requests.entry(name).or_insert(limit);
            }
        }
    }
}

fn container(container: &mut Value) {
    if container.text("imagePullPolicy").is_empty() {
        // The tag `latest` moves, so a cached image is likely an old one.
        let always = is_latest(container.text("image"));
        set(
            container,
            "imagePullPolicy",
            if always { "Always" } else { "IfNotPresent" },
        );
    }
    fill_empty(container, "terminationMessagePath", "/dev/termination-log");
    fill_empty(container, "terminationMessagePolicy", "File");
    // Go serializes these structs even when they are empty.
    fill(container, "resources", json!({}));
    for port in items_mut(container, "ports") {
        fill_empty(port, "protocol", "TCP");
    }
    for variable in items_mut(container, "env") {
        if let Some(reference) = existing(variable, "valueFrom.fieldRef") {
            fill_empty(reference, "apiVersion", "v1");
        }
        if let Some(reference) = existing(variable, "valueFrom.fileKeyRef") {
            fill(reference, "optional", false);
        }
    }
    round_resources(container);
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = existing(container, field) {
            self::probe(probe);
        }
    }
    for field in ["lifecycle.postStart", "lifecycle.preStop"] {
        if let Some(handler) = existing(container, field) {
            http_get(handler);
        }
    }
}

fn round_resources(owner: &mut Value) {
    for field in ["resources.limits", "resources.requests"] {
        resources::round_up(existing(owner, field).and_then(Value::as_object_mut));
    }
}

fn probe(probe: &mut Value) {
    fill_empty(probe, "timeoutSeconds", 1);
    fill_empty(probe, "periodSeconds", 10);
    fill_empty(probe, "successThreshold", 1);
    fill_empty(probe, "failureThreshold", 3);
    http_get(probe);
    if let Some(grpc) = existing(probe, "grpc") {
        fill(grpc, "service", "");
    }
}

fn http_get(handler: &mut Value) {
    if let Some(get) = existing(handler, "httpGet") {
        fill_empty(get, "path", "/");
        fill_empty(get, "scheme", "HTTP");
    }
}

fn volume_source(volume: &mut Value) {
    let Some(fields) = volume.as_object() else {
        return;
    };
    if fields
        .iter()
        .all(|(key, value)| key == "name" || value.is_null())
    {
        set(volume, "emptyDir", json!({}));
        return;
    }
    source(volume);
    for field in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = existing(volume, field) {
            fill(source, "defaultMode", 0o644);
        }
    }
    field_refs(volume, "downwardAPI.items");
    for source in items_mut(volume, "projected.sources") {
        field_refs(source, "downwardAPI.items");
        if let Some(token) = existing(source, "serviceAccountToken") {
            fill(token, "expirationSeconds", 3600);
        }
    }
    if let Some(claim) = existing(volume, "ephemeral.volumeClaimTemplate")
        && object_at(claim, "spec").is_some()
        && let Some(spec) = existing(claim, "spec")
    {
        claim_spec(spec);
    }
    if let Some(image) = existing(volume, "image") {
        let policy = if is_latest(image.text("reference")) {
            "Always"
        } else {
            "IfNotPresent"
        };
        fill_empty(image, "pullPolicy", policy);
    }
}

/// Defaults of sources that pods and persistent volumes share.
pub(crate) fn source(owner: &mut Value) {
    if let Some(host_path) = existing(owner, "hostPath") {
        fill(host_path, "type", "");
    }
    if let Some(iscsi) = existing(owner, "iscsi") {
        fill_empty(iscsi, "iscsiInterface", "default");
    }
    if let Some(rbd) = existing(owner, "rbd") {
        fill_empty(rbd, "pool", "rbd");
        fill_empty(rbd, "user", "admin");
        fill_empty(rbd, "keyring", "/etc/ceph/keyring");
    }
    if let Some(disk) = existing(owner, "azureDisk") {
        fill(disk, "cachingMode", "ReadWrite");
        fill(disk, "fsType", "ext4");
        fill(disk, "readOnly", false);
        fill(disk, "kind", "Shared");
    }
    if let Some(scale_io) = existing(owner, "scaleIO") {
        fill_empty(scale_io, "storageMode", "ThinProvisioned");
        fill_empty(scale_io, "fsType", "xfs");
    }
}

fn field_refs(owner: &mut Value, path: &str) {
    for item in items_mut(owner, path) {
        if let Some(reference) = existing(item, "fieldRef") {
            fill_empty(reference, "apiVersion", "v1");
        }
    }
}

/// Defaults of a claim's spec.
pub(crate) fn claim_spec(spec: &mut Value) {
    fill(spec, "volumeMode", "Filesystem");
    round_resources(spec);
}

/// Whether an image reference has the tag `latest`, explicitly or by having neither tag nor digest.
/// A reference that does not parse has no tag.
fn is_latest(image: &str) -> bool {
    let (name, digest) = match image.split_once('@') {
        Some((name, _)) => (name, true),
        None => (image, false),
    };
    let slash = name.rfind('/').map_or(0, |at| at + 1);
    let (repository, tag) = match name[slash..].rfind(':') {
        Some(at) => (&name[..slash + at], Some(&name[slash + at + 1..])),
        None => (name, None),
    };
    let latest = match tag {
        Some(tag) => tag == "latest",
        None => !digest,
    };
    latest && is_repository(repository)
}

/// Whether the path of a repository is valid for registries.
fn is_repository(name: &str) -> bool {
    let path = match name.split_once('/') {
        Some((first, rest))
            if first.contains(['.', ':'])
                || first == "localhost"
                || first.chars().any(char::is_uppercase) =>
        {
            rest
        }
        _ => name,
    };
    let lower = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    path.split('/').all(|part| {
        part.starts_with(lower)
            && part.ends_with(lower)
            && part
                .chars()
                .all(|c| lower(c) || matches!(c, '.' | '_' | '-'))
    })
}
