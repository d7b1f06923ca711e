//! Protection finalizers: keep claims used by pods, and bound volumes.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::{Api, Client};
use runtime::{Error, Key, Kind, Manager, Next, Queue, Reconcile, Writer};

use super::{Caches, WORKERS, claims_of, ephemeral_name, volume_phase, volumes_of};
use crate::object::namespace;
use crate::pod::{is_terminal, node_name};

const CLAIM: &str = "kubernetes.io/pvc-protection";
const VOLUME: &str = "kubernetes.io/pv-protection";

struct Claims {
    client: Client,
    caches: Caches,
}

struct Volumes(Caches);

pub(super) fn start(manager: &Manager, caches: &Caches) {
    let (claims, volumes) = (Queue::new(), Queue::new());
    claims.enqueue_mapped(&caches.claims, |change| {
        relevant(change.new.as_deref()?, CLAIM)
    });
    // A claim can be removed when the last pod that used it is gone.
    claims.enqueue_mapped(&caches.pods, |change| {
        let gone = change.old.as_ref().filter(|_| change.new.is_none());
        gone.map(|pod| claims_of(pod)).unwrap_or_default()
    });
    volumes.enqueue_mapped(&caches.volumes, |change| {
        relevant(change.new.as_deref()?, VOLUME)
    });
    let keeper = Claims {
        client: manager.client(),
        caches: caches.clone(),
    };
    manager.start(keeper, &claims, WORKERS);
    manager.start(Volumes(caches.clone()), &volumes, WORKERS);
}

/// The key of an object whose finalizer may have to change.
fn relevant<K: Kind>(object: &K, finalizer: &str) -> Option<Key> {
    let meta = object.meta();
    (step(meta, finalizer) != ProtectionStep::Nothing).then(|| Key::of(meta))
}

/// The next step for a finalizer.
#[derive(Debug, PartialEq, Eq)]
enum ProtectionStep {
    Add,
    RemoveIfUnused,
    Nothing,
}

fn step(meta: &ObjectMeta, finalizer: &str) -> ProtectionStep {
    let has = meta.finalizers.iter().flatten().any(|it| it == finalizer);
    match (meta.deletion_timestamp.is_some(), has) {
        (false, false) => ProtectionStep::Add,
        (true, true) => ProtectionStep::RemoveIfUnused,
        _ => ProtectionStep::Nothing,
    }
}

/// Whether a pod uses a claim. An unscheduled pod does not: no kubelet would start it any more. A
/// terminated one does, except an ephemeral claim created for it.
fn uses(pod: &Pod, claim: &Key) -> bool {
    let here = namespace(&pod.metadata) == claim.namespace;
    here && node_name(pod).is_some()
        && volumes_of(pod).any(|volume| {
            let named = volume.persistent_volume_claim.as_ref();
            let made = volume.ephemeral.is_some() && ephemeral_name(pod, volume) == claim.name;
            named.is_some_and(|it| it.claim_name == claim.name) || (made && !is_terminal(pod))
        })
}

impl Reconcile for Claims {
    fn name(&self) -> &'static str {
        "pvc-protection"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(claim) = self.caches.claims.find(key) else {
            return Ok(Next::Wait);
        };
        let step = step(&claim.metadata, CLAIM);
        if step == ProtectionStep::RemoveIfUnused && self.is_used(key).await? {
            return Ok(Next::Wait);
        }
        apply(&self.caches.claim_writer, &claim.metadata, &step, CLAIM).await
    }
}

impl Claims {
    /// The cache may not have a pod yet; before data is deleted, the API server is asked.
    async fn is_used(&self, key: &Key) -> Result<bool, Error> {
        let known = self.caches.pods_by_claim.find(&key.to_string());
        if known.iter().any(|pod| uses(pod, key)) {
            return Ok(true);
        }
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        let live = pods
            .list(&ListParams::default())
            .await
            .map_err(Error::api(format!("list pods that use claim {key}")))?;
        Ok(live.items.iter().any(|pod| uses(pod, key)))
    }
}

impl Reconcile for Volumes {
    fn name(&self) -> &'static str {
        "pv-protection"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(volume) = self.0.volumes.find(key) else {
            return Ok(Next::Wait);
        };
        let step = step(&volume.metadata, VOLUME);
        if step == ProtectionStep::RemoveIfUnused && volume_phase(&volume) == Some("Bound") {
            return Ok(Next::Wait);
        }
        apply(&self.0.volume_writer, &volume.metadata, &step, VOLUME).await
    }
}

async fn apply<K: Kind>(
    writer: &Writer<K>,
    read: &ObjectMeta,
    step: &ProtectionStep,
    finalizer: &str,
) -> Result<Next, Error> {
    if *step != ProtectionStep::Nothing {
        let present = *step == ProtectionStep::Add;
        writer.set_finalizer(read, finalizer, present).await?;
    }
    Ok(Next::Wait)
}

#[cfg(test)]
mod tests;
