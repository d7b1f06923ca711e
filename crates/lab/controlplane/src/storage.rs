//! Binding of claims and volumes.
//!
//! ```text
//! claims, volumes, classes, pods --> claims::decide  --> bind, wait, ask a provisioner, lose
//! volumes, claims                --> volumes::decide --> available, bound, released, unbind
//! pods, claims, volumes          --> protection      --> finalizers of objects in use
//! pods with claim templates      --> ephemeral       --> those claims
//! ```
//!
//! A binding is four writes, each of which may be the last before a crash: the volume references
//! the claim, the volume is bound, the claim references the volume, the claim is bound. The next
//! reconcile resumes at the first missing one, as kube-controller-manager's binder does.

mod binder;
mod claims;
mod ephemeral;
mod matching;
mod protection;
mod volumes;

use k8s_openapi::api::core::v1::{
    Node, ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod, Volume,
};
use k8s_openapi::api::storage::v1::StorageClass;
use runtime::{Cache, Index, Key, Manager, Queue, Writer};

use crate::object::{annotation, name, namespace};
use crate::pod::node_name;

const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
const BETA_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";
const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const WORKERS: usize = 4;

/// Caches shared by the controllers.
#[derive(Clone)]
struct Caches {
    claims: Cache<PersistentVolumeClaim>,
    /// Unbound claims by class, others by volume.
    claims_by_need: Index<PersistentVolumeClaim>,
    volumes: Cache<PersistentVolume>,
    /// Unbound volumes by class, others by claim.
    volumes_by_use: Index<PersistentVolume>,
    classes: Cache<StorageClass>,
    nodes: Cache<Node>,
    pods: Cache<Pod>,
    pods_by_claim: Index<Pod>,
    claim_writer: Writer<PersistentVolumeClaim>,
    volume_writer: Writer<PersistentVolume>,
}

/// Starts the storage controllers.
pub async fn start(manager: &Manager) {
    let caches = Caches::new(manager);
    let (claims, volumes) = (Queue::new(), Queue::new());
    subscribe(&caches, &claims, &volumes);
    tokio::join!(
        caches.claims.synced(),
        caches.volumes.synced(),
        caches.classes.synced(),
        caches.nodes.synced(),
        caches.pods.synced(),
    );
    ephemeral::start(manager, &caches);
    protection::start(manager, &caches);
    binder::start(manager, caches, &claims, &volumes);
}

impl Caches {
    fn new(manager: &Manager) -> Self {
        let claims = manager.cache::<PersistentVolumeClaim>();
        let volumes = manager.cache::<PersistentVolume>();
        let pods = manager.cache::<Pod>();
        Self {
            claim_writer: Writer::namespaced(manager.client()).shown_by(&claims),
            volume_writer: Writer::cluster(manager.client()).shown_by(&volumes),
            claims_by_need: claims.index(|claim| {
                vec![volume_of(claim).map_or_else(|| of_class(claim_class(claim)), of_volume)]
            }),
            claims,
            volumes_by_use: volumes.index(|volume| {
                let class = of_class(volume_class(volume));
                vec![claim_of(volume).map_or(class, |key| key.to_string())]
            }),
            volumes,
            classes: manager.cache(),
            nodes: manager.cache(),
            pods_by_claim: pods.index(|pod| {
                let keys = claims_of(pod).into_iter();
                keys.map(|key| key.to_string()).collect()
            }),
            pods,
        }
    }
}

fn of_class(class: &str) -> String {
    format!("class {class}")
}

fn of_volume(volume: &str) -> String {
    format!("volume {volume}")
}

fn subscribe(caches: &Caches, claims: &Queue<Key>, volumes: &Queue<Key>) {
    let (to_claims, to_volumes) = (claims.clone(), volumes.clone());
    let used = caches.volumes_by_use.clone();
    caches.claims.on_change(move |change| {
        // Both sides, because a claim that changes its volume concerns the former one, too.
        for claim in change.sides() {
            let key = Key::of(&claim.metadata);
            if let Some(volume) = volume_of(claim) {
                to_volumes.add(Key::new("", volume));
            }
            for volume in used.find(&key.to_string()) {
                to_volumes.add(Key::of(&volume.metadata));
            }
            to_claims.add(key);
        }
    });

    let (to_claims, to_volumes) = (claims.clone(), volumes.clone());
    let needing = caches.claims_by_need.clone();
    caches.volumes.on_change(move |change| {
        let Some(volume) = change.object() else {
            return;
        };
        let key = Key::of(&volume.metadata);
        let mut waiting = needing.find(&of_volume(&key.name));
        match claim_of(volume) {
            Some(claim) => to_claims.add(claim),
            // An unbound volume may be what any claim of its class waits for.
            None => waiting.extend(needing.find(&of_class(volume_class(volume)))),
        }
        for claim in waiting {
            to_claims.add(Key::of(&claim.metadata));
        }
        to_volumes.add(key);
    });

    // A new class, or a new default class, enqueues the claims that may wait for it.
    let all = caches.claims.clone();
    claims.enqueue_mapped(&caches.classes, move |change| {
        let mut waiting = all.list();
        waiting.retain(|claim| change.new.is_some() && volume_of(claim).is_none());
        waiting
            .iter()
            .map(|claim| Key::of(&claim.metadata))
            .collect::<Vec<_>>()
    });
    claims.enqueue_mapped(&caches.pods, |change| {
        let node = |pod: &Pod| node_name(pod).map(str::to_owned);
        // Only the node matters, for claims that wait for their first consumer. Most changes of
        // pods are of their status.
        let moved = change.old.as_deref().map(node) != change.new.as_deref().map(node);
        let pod = change.object().filter(|_| moved);
        pod.map(|pod| claims_of(pod)).unwrap_or_default()
    });
}

/// The volume a claim references.
fn volume_of(claim: &PersistentVolumeClaim) -> Option<&str> {
    let name = claim.spec.as_ref()?.volume_name.as_deref();
    name.filter(|name| !name.is_empty())
}

/// The claim a volume references.
fn claim_of(volume: &PersistentVolume) -> Option<Key> {
    let claim = claim_ref(volume)?;
    let (namespace, name) = (claim.namespace.clone(), claim.name.clone());
    Some(Key::new(
        namespace.unwrap_or_default(),
        name.unwrap_or_default(),
    ))
}

/// The class of a claim; the deprecated annotation takes precedence.
fn asked_class(claim: &PersistentVolumeClaim) -> Option<&str> {
    annotation(&claim.metadata, BETA_CLASS)
        .or_else(|| claim.spec.as_ref()?.storage_class_name.as_deref())
}

fn claim_class(claim: &PersistentVolumeClaim) -> &str {
    asked_class(claim).unwrap_or_default()
}

fn volume_class(volume: &PersistentVolume) -> &str {
    annotation(&volume.metadata, BETA_CLASS)
        .or_else(|| volume.spec.as_ref()?.storage_class_name.as_deref())
        .unwrap_or_default()
}

/// The claims a pod references, and those created for it.
fn claims_of(pod: &Pod) -> Vec<Key> {
    let meta = &pod.metadata;
    volumes_of(pod)
        .filter_map(|volume| match &volume.persistent_volume_claim {
            Some(claim) => Some(claim.claim_name.clone()),
            None => volume
                .ephemeral
                .as_ref()
                .map(|_| ephemeral_name(pod, volume)),
        })
        .map(|claim| Key::new(namespace(meta), claim))
        .collect()
}

fn volumes_of(pod: &Pod) -> impl Iterator<Item = &Volume> {
    let spec = pod.spec.iter();
    spec.flat_map(|spec| spec.volumes.iter().flatten())
}

/// The name of the claim of an ephemeral volume.
fn ephemeral_name(pod: &Pod, volume: &Volume) -> String {
    format!("{}-{}", name(&pod.metadata), volume.name)
}

/// The claim that a volume is bound to, or reserved for.
fn claim_ref(volume: &PersistentVolume) -> Option<&ObjectReference> {
    volume.spec.as_ref()?.claim_ref.as_ref()
}

fn volume_phase(volume: &PersistentVolume) -> Option<&str> {
    volume.status.as_ref()?.phase.as_deref()
}
