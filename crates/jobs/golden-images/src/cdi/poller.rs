//! The poller pod: polls a registry through a node, where only nodes can reach or authenticate to
//! it.
//!
//! One container has the polled image itself, with pull policy Always. The result is the `imageID`
//! that the kubelet reports; how the container ends is irrelevant. Its command is Medley's own
//! binary, which an init container copies there, because images of disks contain no executable.

#[cfg(test)]
mod tests;

use api::cdi::{DataImportCron, RegistrySource};
use k8s_openapi::api::core::v1::Pod;
use kube_core::Resource as _;
use machinery::names::SUBDOMAIN_MAX;
use serde_json::{Value, json};

use super::failure::{Failure, Reason};
use super::pod::{restricted, spec, stuck, unschedulable};
use super::poll::PolledVersion;
use crate::names::fnv1a;

/// Label of a poller pod: the name of its DataImportCron.
pub const CRON_LABEL: &str = "cdi.kubevirt.io/dataImportCronPoller";
/// The name of the container with the polled image.
pub(super) const CONTAINER: &str = "poller";
/// The path of Medley's binary in it.
const PROGRAM: &str = "/shared/medley";
/// How many characters of the uid names include.
const UID: usize = 8;

/// The state of a poller pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PollerState {
    /// It has no result yet.
    Waiting,
    /// It has no result, because it cannot be scheduled.
    Hindered(Failure),
    /// It has a result.
    Answered(Result<PolledVersion, Failure>),
}

/// The name of the poller pod of a DataImportCron.
pub fn name(cron: &DataImportCron) -> String {
    let meta = &cron.metadata;
    let uid = meta.uid.as_deref().unwrap_or_default();
    let uid = uid.get(..UID).unwrap_or(uid);
    let base = meta.name.as_deref().unwrap_or_default();
    let name = format!("poller-{base}-{uid}");
    if name.len() <= SUBDOMAIN_MAX {
        return name;
    }
    // Object names are ASCII, so slicing by bytes is safe.
    let most = SUBDOMAIN_MAX - "poller---".len() - UID - 8;
    let start = base.get(..most).unwrap_or(base);
    format!("poller-{start}-{:08x}-{uid}", fnv1a(base.as_bytes()))
}

/// The poller pod of a DataImportCron; `program` is Medley's own image.
pub fn pod(cron: &DataImportCron, registry: &RegistrySource, program: &str) -> Option<Value> {
    let image = registry.pulled_by_node()?;
    let meta = &cron.metadata;
    let resources = json!({
        "requests": { "cpu": "10m", "memory": "20M" }, "limits": { "cpu": "100m", "memory": "100M" },
    });
    let shared = json!([{ "name": "shared", "mountPath": "/shared" }]);
    let secret = registry.secret_ref.as_deref().filter(|it| !it.is_empty());
    let mut spec = spec(cron.spec.architecture(), secret);
    spec["initContainers"] = json!([{
        "name": "program",
        "image": program,
        "args": ["importer", "--copy-program", PROGRAM],
        "volumeMounts": shared,
        "securityContext": restricted(),
        "resources": resources,
    }]);
    spec["containers"] = json!([{
        "name": CONTAINER,
        "image": image,
        // With a cached image the tag would never be resolved again.
        "imagePullPolicy": "Always",
        // A container disk has no program to run. Any command does: the digest is known when the
        // image is pulled.
        "command": [PROGRAM, "version"],
        "volumeMounts": shared,
        "securityContext": restricted(),
        "resources": resources,
    }]);
    spec["volumes"] = json!([{ "name": "shared", "emptyDir": {} }]);
    Some(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name(cron),
            "namespace": meta.namespace,
            "labels": {
                "app": "containerized-data-importer",
                CRON_LABEL: crate::names::fitting(meta.name.as_deref().unwrap_or_default()),
            },
            // Without blockOwnerDeletion: it would need the permission to update finalizers of the
            // owner where OwnerReferencesPermissionEnforcement is on.
            "ownerReferences": [{
                "apiVersion": DataImportCron::api_version(&()),
                "kind": DataImportCron::kind(&()),
                "name": meta.name,
                "uid": meta.uid,
                "controller": true,
            }],
        },
        "spec": spec,
    }))
}

/// The state of a poller pod.
pub fn read(pod: &Pod) -> PollerState {
    let status = pod.status.as_ref();
    let containers = status.and_then(|it| it.container_statuses.as_ref());
    let mut containers = containers.into_iter().flatten();
    let pulled = containers.find(|it| it.name == CONTAINER);
    let pulled = pulled.map(|it| it.image_id.as_str());
    // Before the failures: a container that could not start has been pulled all the same.
    if let Some(pulled) = pulled.filter(|it| !it.is_empty()) {
        return PollerState::Answered(digest(pulled));
    }
    if let Some(failure) = stuck(pod) {
        return PollerState::Answered(Err(failure));
    }
    if let Some(detail) = unschedulable(pod) {
        let message = format!("poller pod cannot be scheduled: {detail}");
        return PollerState::Hindered(Failure::new(Reason::Unschedulable, message));
    }
    let phase = status.and_then(|it| it.phase.as_deref());
    if !matches!(phase, Some("Failed" | "Succeeded")) {
        return PollerState::Waiting;
    }
    // Evicted, or an init container failed.
    let detail = status.map(|it| [it.reason.as_deref(), it.message.as_deref()]);
    let detail: Vec<&str> = detail.into_iter().flatten().flatten().collect();
    let message = format!("poller pod ended without a result: {}", detail.join(": "));
    PollerState::Answered(Err(Failure::new(Reason::ImportFailed, message)))
}

/// The digest in an imageID: `registry.example/fedora@sha256:...`. Some runtimes report only the
/// digest of the image configuration, which cannot be pulled.
fn digest(image: &str) -> Result<PolledVersion, Failure> {
    match image.rsplit_once('@') {
        Some((_, digest)) if digest.starts_with("sha256:") => Ok(PolledVersion {
            digest: digest.to_owned(),
            ..PolledVersion::default()
        }),
        _ => Err(Failure::new(
            Reason::InvalidDigest,
            format!("the node reports imageID {image:?}; NAME@sha256:DIGEST is required"),
        )),
    }
}
