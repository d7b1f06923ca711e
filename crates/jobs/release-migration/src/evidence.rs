//! The images that pods run: evidence about operators that do not report images, and a check of those that do.
//!
//! An operator lists its objects (`relatedObjects`): namespaces, of which all pods count, and workloads, of which their
//! own pods count. A pod that runs an image of the release is updated; one that runs another image from the same
//! repository is not. Images from other repositories belong to users and third parties, and are ignored.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use api::openshift::{ClusterOperator, ImageStream, ObjectReference};
use k8s_openapi::api::core::v1::Pod;
use platform::{Digest, Reference};
use serde::Serialize;

/// Workload resources that pods are traced to.
const WORKLOADS: [&str; 3] = ["deployments", "daemonsets", "statefulsets"];

/// An image in the spec of a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct PodImage {
    /// The namespace of the pod.
    pub namespace: String,
    /// The name of the pod.
    pub pod: String,
    /// The container.
    pub container: String,
    /// The image, as in the spec.
    pub image: String,
    /// Whether the pod is ready.
    #[serde(rename = "ready")]
    pub is_ready: bool,
}

impl PodImage {
    /// Whether it is this image, in any repository.
    pub fn is(&self, image: &str) -> bool {
        // A mirror changes the repository and not the digest. Without a digest only the whole name can be compared.
        self.image == image || (digest(image).is_some() && digest(image) == digest(&self.image))
    }
}

fn digest(image: &str) -> Option<Digest> {
    let reference: Reference = image.parse().ok()?;
    reference.digest().cloned()
}

fn repository(image: &str) -> Option<String> {
    let reference: Reference = image.parse().ok()?;
    Some(reference.name())
}

/// The rollout state of an operator's pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum Arrival {
    /// All containers run images of the release and are ready.
    Arrived,
    /// All containers run images of the release, but not all are ready.
    Starting,
    /// A container runs an image of another release.
    Rolling,
    /// It has no pods.
    NothingRuns,
}

/// The rollout state of an operator's pods, with the pods that are not updated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// The operator.
    pub operator: String,
    /// The rollout state.
    pub arrival: Arrival,
    /// Number of containers with images of this or another release.
    pub containers: usize,
    /// Number of containers with other images.
    pub foreign: usize,
    /// Containers with images of another release.
    pub stale: Vec<PodImage>,
    /// Pods that are not ready.
    pub unready: Vec<String>,
}

/// The images of a release, for lookups.
#[derive(Debug, Clone, Default)]
pub struct ReleaseImages {
    names: BTreeSet<String>,
    digests: BTreeSet<Digest>,
    repositories: BTreeSet<String>,
}

impl ReleaseImages {
    /// Collects the images of a release.
    pub fn of(stream: &ImageStream) -> Self {
        let images = || stream.images().map(|(_, image)| image);
        Self {
            names: images().map(str::to_owned).collect(),
            digests: images().filter_map(digest).collect(),
            // All images of an OpenShift release are in one repository, which also holds those of other releases: that
            // is how a pod of the previous release is recognised without its payload.
            repositories: images().filter_map(repository).collect(),
        }
    }

    /// Whether an image is of the release, in any repository.
    pub fn has(&self, image: &str) -> bool {
        self.names.contains(image) || digest(image).is_some_and(|it| self.digests.contains(&it))
    }

    /// Whether an image is of some release: of this one, or from its repositories.
    pub fn is_related(&self, image: &str) -> bool {
        self.has(image) || repository(image).is_some_and(|it| self.repositories.contains(&it))
    }
}

/// The images of an operator's pods. Pods that have ended are ignored.
pub fn running<'a>(
    operator: &ClusterOperator,
    pods: impl IntoIterator<Item = &'a Pod>,
) -> Vec<PodImage> {
    let none = Vec::new();
    let status = operator.status.as_ref();
    let related = status.map_or(&none, |status| &status.related_objects);
    let mut found: Vec<PodImage> = pods
        .into_iter()
        .filter(|pod| !has_ended(pod) && belongs(pod, related))
        .flat_map(containers)
        .collect();
    found.sort();
    found
}

/// The rollout state of an operator's pods.
pub fn evidence(operator: &str, running: &[PodImage], images: &ReleaseImages) -> Evidence {
    let (related, foreign): (Vec<&PodImage>, Vec<&PodImage>) =
        running.iter().partition(|it| images.is_related(&it.image));
    let stale = related.iter().filter(|it| !images.has(&it.image));
    let stale: Vec<PodImage> = stale.map(|&it| it.clone()).collect();
    let unready = related.iter().filter(|it| !it.is_ready);
    let unready: BTreeSet<String> = unready
        .map(|it| format!("{}/{}", it.namespace, it.pod))
        .collect();
    Evidence {
        operator: operator.to_owned(),
        arrival: match (related.as_slice(), stale.as_slice()) {
            ([], _) => Arrival::NothingRuns,
            // Before readiness: a ready pod of the old release is no progress.
            (_, [_, ..]) => Arrival::Rolling,
            _ if !unready.is_empty() => Arrival::Starting,
            _ => Arrival::Arrived,
        },
        containers: related.len(),
        foreign: foreign.len(),
        stale,
        unready: unready.into_iter().collect(),
    }
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Whether a pod belongs to one of several objects.
fn belongs(pod: &Pod, related: &[ObjectReference]) -> bool {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let workload = workload(pod);
    related.iter().any(|it| match it.resource.as_str() {
        "namespaces" => it.group.is_empty() && it.name == namespace,
        resource if WORKLOADS.contains(&resource) => {
            // `relatedObjects` may name a resource without a name, which means all of the namespace.
            it.namespace == namespace
                && workload.as_ref().is_some_and(|(kind, name)| {
                    *kind == resource && (it.name.is_empty() || it.name == *name)
                })
        }
        _ => false,
    })
}

/// The workload of a pod, by its owner reference.
fn workload(pod: &Pod) -> Option<(&'static str, String)> {
    let owners = pod.metadata.owner_references.as_ref()?;
    let owner = owners.iter().find(|it| it.controller == Some(true))?;
    match owner.kind.as_str() {
        // The name of a ReplicaSet is that of its Deployment with a hash.
        "ReplicaSet" => {
            // By name, because ReplicaSets are not an input: a large cluster has thousands.
            let (name, _) = owner.name.rsplit_once('-')?;
            Some(("deployments", name.to_owned()))
        }
        "DaemonSet" => Some(("daemonsets", owner.name.clone())),
        "StatefulSet" => Some(("statefulsets", owner.name.clone())),
        _ => None,
    }
}

fn containers(pod: &Pod) -> Vec<PodImage> {
    let is_ready = pod
        .status
        .iter()
        .flat_map(|it| it.conditions.iter().flatten())
        .any(|it| it.type_ == "Ready" && it.status == "True");
    let spec = pod.spec.iter();
    let all = spec.flat_map(|spec| {
        spec.init_containers
            .iter()
            .flatten()
            .chain(&spec.containers)
    });
    all.map(|container| PodImage {
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        pod: pod.metadata.name.clone().unwrap_or_default(),
        container: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        is_ready,
    })
    .collect()
}
