//! The pod that asks a registry by a node: where the node pulls images, nobody else need reach it.
//!
//! One container is of the image itself, which is always pulled anew. What comes of it is the `imageID`
//! that the kubelet reports: how the container ends does not matter. All that it runs is this program,
//! which an init container puts there, because images of disks have none.

#[cfg(test)]
mod tests;

use api::cdi::{DataImportCron, RegistrySource};
use k8s_openapi::api::core::v1::Pod;
use kube_core::Resource as _;
use machinery::names::SUBDOMAIN_MAX;
use serde_json::{Value, json};

use super::failure::{Failure, Reason};
use super::pod::{restricted, spec, stuck, unschedulable};
use super::poll::Found;
use crate::names::fnv1a;

/// Whose label tells which DataImportCron a pod asks for.
pub const CRON_LABEL: &str = "cdi.kubevirt.io/dataImportCronPoller";
/// The container of the image.
pub(super) const CONTAINER: &str = "poller";
/// Where this program is in it.
const PROGRAM: &str = "/shared/medley";
/// How many characters of a uid are part of names.
const UID: usize = 8;

/// What is seen of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// It has nothing to say yet.
    Waiting,
    /// It has nothing to say yet, because no node takes it.
    Hindered(Failure),
    /// It has said all that it will.
    Answered(Result<Found, Failure>),
}

/// What the pod of a DataImportCron is called.
pub fn name(cron: &DataImportCron) -> String {
    let meta = &cron.metadata;
    let uid = meta.uid.as_deref().unwrap_or_default();
    let uid = uid.get(..UID).unwrap_or(uid);
    let base = meta.name.as_deref().unwrap_or_default();
    let name = format!("poller-{base}-{uid}");
    if name.len() <= SUBDOMAIN_MAX {
        return name;
    }
    // Names of objects are ASCII.
    let most = SUBDOMAIN_MAX - "poller---".len() - UID - 8;
    let start = base.get(..most).unwrap_or(base);
    format!("poller-{start}-{:08x}-{uid}", fnv1a(base.as_bytes()))
}

/// The pod that asks for an image of a DataImportCron; `program` is the image of this program.
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
        "imagePullPolicy": "Always",
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
            // It need not be waited for: where owners are checked, that takes no right.
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

/// What a pod says of the image that its node has pulled.
pub fn read(pod: &Pod) -> Seen {
    let status = pod.status.as_ref();
    let containers = status.and_then(|it| it.container_statuses.as_ref());
    let mut containers = containers.into_iter().flatten();
    let pulled = containers.find(|it| it.name == CONTAINER);
    let pulled = pulled.map(|it| it.image_id.as_str());
    if let Some(pulled) = pulled.filter(|it| !it.is_empty()) {
        return Seen::Answered(digest(pulled));
    }
    if let Some(failure) = stuck(pod) {
        return Seen::Answered(Err(failure));
    }
    if let Some(said) = unschedulable(pod) {
        let message = format!("the pod that asks for the image cannot be scheduled: {said}");
        return Seen::Hindered(Failure::new(Reason::Unschedulable, message));
    }
    let phase = status.and_then(|it| it.phase.as_deref());
    if !matches!(phase, Some("Failed" | "Succeeded")) {
        return Seen::Waiting;
    }
    // Evicted, or what is before the image failed.
    let said = status.map(|it| [it.reason.as_deref(), it.message.as_deref()]);
    let said: Vec<&str> = said.into_iter().flatten().flatten().collect();
    let message = format!(
        "the pod that asks for the image ended without it: {}",
        said.join(": ")
    );
    Seen::Answered(Err(Failure::new(Reason::ImportFailed, message)))
}

/// The digest in what a kubelet calls an image: `registry.example/fedora@sha256:...`. Some runtimes tell
/// the digest of the configuration alone, by which nothing can be pulled.
fn digest(image: &str) -> Result<Found, Failure> {
    match image.rsplit_once('@') {
        Some((_, digest)) if digest.starts_with("sha256:") => Ok(Found {
            digest: digest.to_owned(),
            ..Found::default()
        }),
        _ => Err(Failure::new(
            Reason::InvalidDigest,
            format!("the node calls the image {image:?}; NAME@sha256:DIGEST is needed"),
        )),
    }
}
