//! Creates the claims of ephemeral volumes from the templates in pods.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use runtime::{Error, Events, Key, Manager, Next, Queue, Reconcile};

use super::{Caches, WORKERS, ephemeral_name, volumes_of};
use crate::object::{controller_reference, is_controlled_by};

struct Ephemeral {
    caches: Caches,
    events: Events,
}

pub(super) fn start(manager: &Manager, caches: &Caches) {
    let queue: Queue<Key> = Queue::new();
    queue.enqueue_mapped(&caches.pods, |change| {
        let pod = change.new.as_ref().filter(|pod| !wanted(pod).is_empty());
        pod.map(|pod| Key::of(&pod.metadata))
    });
    // A deleted claim is created again as long as its pod exists.
    let pods = caches.pods_by_claim.clone();
    queue.enqueue_mapped(&caches.claims, move |change| {
        let gone = change.old.as_ref().filter(|_| change.new.is_none());
        let pods = gone.map(|claim| pods.find(&Key::of(&claim.metadata).to_string()));
        let pods = pods.unwrap_or_default();
        pods.iter()
            .map(|pod| Key::of(&pod.metadata))
            .collect::<Vec<_>>()
    });
    let ephemeral = Ephemeral {
        caches: caches.clone(),
        events: manager.events("ephemeral_volume"),
    };
    manager.start(ephemeral, &queue, WORKERS);
}

/// The claims of a pod's ephemeral volumes, with the names of the volumes.
fn wanted(pod: &Pod) -> Vec<(String, PersistentVolumeClaim)> {
    let leaving = pod.metadata.deletion_timestamp.is_some();
    volumes_of(pod)
        .filter(|_| !leaving)
        .filter_map(|volume| {
            let template = volume.ephemeral.as_ref()?.volume_claim_template.as_ref()?;
            let meta = template.metadata.clone().unwrap_or_default();
            let claim = PersistentVolumeClaim {
                metadata: ObjectMeta {
                    name: Some(ephemeral_name(pod, volume)),
                    namespace: pod.metadata.namespace.clone(),
                    annotations: meta.annotations,
                    labels: meta.labels,
                    owner_references: Some(vec![controller_reference(pod)]),
                    ..ObjectMeta::default()
                },
                spec: Some(template.spec.clone()),
                status: None,
            };
            Some((volume.name.clone(), claim))
        })
        .collect()
}

impl Reconcile for Ephemeral {
    fn name(&self) -> &'static str {
        "ephemeral-volumes"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(pod) = self.caches.pods.find(key) else {
            return Ok(Next::Wait);
        };
        for (volume, claim) in wanted(&pod) {
            if let Err(error) = self.ensure(key, &pod, &claim).await {
                let text = format!("ephemeral volume {volume}: {error}");
                self.events.warning(pod.as_ref(), "FailedBinding", text);
                return Err(error);
            }
        }
        Ok(Next::Wait)
    }
}

impl Ephemeral {
    async fn ensure(
        &self,
        pod_key: &Key,
        pod: &Pod,
        claim: &PersistentVolumeClaim,
    ) -> Result<(), Error> {
        let key = Key::of(&claim.metadata);
        if let Some(there) = self.caches.claims.find(&key) {
            if is_controlled_by(&there.metadata, &pod.metadata) {
                return Ok(());
            }
            return Err(Error::Invalid(format!(
                "PVC {key} was not created for pod {pod_key} (pod is not owner)"
            )));
        }
        self.caches.claim_writer.create(claim).await.map(drop)
    }
}

#[cfg(test)]
mod tests;
