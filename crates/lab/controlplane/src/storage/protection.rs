//! Protection finalizers: keep claims used by pods, and bound volumes.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use runtime::{Cache, Error, Key, Kind, Manager, Next, Queue, Reconcile};
use serde::Serialize;

use super::{Caches, WORKERS, claims_of};

const CLAIM: &str = "kubernetes.io/pvc-protection";
const VOLUME: &str = "kubernetes.io/pv-protection";

struct Claims {
    client: Client,
    caches: Caches,
}

struct Volumes {
    client: Client,
    volumes: Cache<PersistentVolume>,
}

pub(super) fn start(manager: &Manager, caches: &Caches) {
    let (claims, volumes) = (Queue::new(), Queue::new());
    let to = claims.clone();
    caches.claims.on_change(move |change| {
        if let Some(claim) = change
            .new
            .as_ref()
            .filter(|claim| is_relevant(&claim.metadata, CLAIM))
        {
            to.add(Key::of(&claim.metadata));
        }
    });
    // A claim can be removed when the last pod that used it is gone.
    let to = claims.clone();
    caches.pods.on_change(move |change| {
        if change.new.is_none() {
            for claim in change.old.iter().flat_map(|pod| claims_of(pod)) {
                to.add(claim);
            }
        }
    });
    let to = volumes.clone();
    caches.volumes.on_change(move |change| {
        if let Some(volume) = change
            .new
            .as_ref()
            .filter(|it| is_relevant(&it.metadata, VOLUME))
        {
            to.add(Key::of(&volume.metadata));
        }
    });
    let keeper = Claims {
        client: manager.client(),
        caches: caches.clone(),
    };
    manager.start(keeper, &claims, WORKERS);
    let keeper = Volumes {
        client: manager.client(),
        volumes: caches.volumes.clone(),
    };
    manager.start(keeper, &volumes, WORKERS);
}

/// The next step for a finalizer.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Add,
    RemoveIfUnused,
    Nothing,
}

fn step(meta: &ObjectMeta, finalizer: &str) -> Step {
    let has = meta.finalizers.iter().flatten().any(|it| it == finalizer);
    match (meta.deletion_timestamp.is_some(), has) {
        (false, false) => Step::Add,
        (true, true) => Step::RemoveIfUnused,
        _ => Step::Nothing,
    }
}

fn is_relevant(meta: &ObjectMeta, finalizer: &str) -> bool {
    step(meta, finalizer) != Step::Nothing
}

/// Whether a pod uses a claim. An unscheduled pod does not: no kubelet would start it any more. A
/// terminated one does, except an ephemeral claim created for it.
fn uses(pod: &Pod, claim: &Key) -> bool {
    let Some(spec) = &pod.spec else {
        return false;
    };
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    let ended = matches!(phase, Some("Succeeded" | "Failed"));
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let here = pod.metadata.namespace.as_deref() == Some(&claim.namespace);
    here && spec.node_name.as_ref().is_some_and(|node| !node.is_empty())
        && spec.volumes.iter().flatten().any(|volume| {
            let named = volume.persistent_volume_claim.as_ref();
            let made =
                volume.ephemeral.is_some() && format!("{name}-{}", volume.name) == claim.name;
            named.is_some_and(|it| it.claim_name == claim.name) || (made && !ended)
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
        let api: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), &key.namespace);
        let step = step(&claim.metadata, CLAIM);
        if step == Step::RemoveIfUnused && self.is_used(key).await? {
            return Ok(Next::Wait);
        }
        apply(&api, &self.caches.claims, key, &claim, step, CLAIM).await
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
        let Some(volume) = self.volumes.find(key) else {
            return Ok(Next::Wait);
        };
        let api: Api<PersistentVolume> = Api::all(self.client.clone());
        let step = step(&volume.metadata, VOLUME);
        let phase = volume
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref());
        if step == Step::RemoveIfUnused && phase == Some("Bound") {
            return Ok(Next::Wait);
        }
        apply(&api, &self.volumes, key, &volume, step, VOLUME).await
    }
}

async fn apply<K>(
    api: &Api<K>,
    cache: &Cache<K>,
    key: &Key,
    object: &Arc<K>,
    step: Step,
    finalizer: &str,
) -> Result<Next, Error>
where
    K: Kind<DynamicType = ()> + Serialize,
{
    let mut object = object.as_ref().clone();
    let finalizers = object.meta_mut().finalizers.get_or_insert_default();
    match step {
        Step::Nothing => return Ok(Next::Wait),
        Step::Add => finalizers.push(finalizer.to_owned()),
        Step::RemoveIfUnused => finalizers.retain(|it| it != finalizer),
    }
    let written = api
        .replace(&key.name, &PostParams::default(), &object)
        .await
        .map_err(Error::api(format!(
            "update finalizers of {} {key}",
            K::kind(&())
        )))?;
    cache.saw(&written).await;
    Ok(Next::Wait)
}

#[cfg(test)]
mod tests;
