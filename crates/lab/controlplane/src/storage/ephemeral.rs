//! Creates the claims of ephemeral volumes from the templates in pods.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::PostParams;
use kube::{Api, Client, Resource as _};
use runtime::{Error, Events, Key, Manager, Next, Queue, Reconcile};

use super::{Caches, WORKERS};

struct Ephemeral {
    client: Client,
    caches: Caches,
    events: Events,
}

pub(super) fn start(manager: &Manager, caches: &Caches) {
    let queue: Queue<Key> = Queue::new();
    let to = queue.clone();
    caches.pods.on_change(move |change| {
        if let Some(pod) = change.new.as_ref().filter(|pod| !wanted(pod).is_empty()) {
            to.add(Key::of(&pod.metadata));
        }
    });
    // A deleted claim is created again as long as its pod exists.
    let (to, pods) = (queue.clone(), caches.pods_by_claim.clone());
    caches.claims.on_change(move |change| {
        if let (Some(claim), None) = (&change.old, &change.new) {
            for pod in pods.find(&Key::of(&claim.metadata).to_string()) {
                to.add(Key::of(&pod.metadata));
            }
        }
    });
    let ephemeral = Ephemeral {
        client: manager.client(),
        caches: caches.clone(),
        events: manager.events("ephemeral_volume"),
    };
    manager.start(ephemeral, &queue, WORKERS);
}

/// The claims of a pod's ephemeral volumes, with the names of the volumes.
fn wanted(pod: &Pod) -> Vec<(String, PersistentVolumeClaim)> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let leaving = pod.metadata.deletion_timestamp.is_some();
    let volumes = pod
        .spec
        .iter()
        .flat_map(|spec| spec.volumes.iter().flatten());
    volumes
        .filter(|_| !leaving)
        .filter_map(|volume| {
            let template = volume.ephemeral.as_ref()?.volume_claim_template.as_ref()?;
            let meta = template.metadata.clone().unwrap_or_default();
            let owner = OwnerReference {
                block_owner_deletion: Some(true),
                ..pod.controller_owner_ref(&())?
            };
            let claim = PersistentVolumeClaim {
                metadata: ObjectMeta {
                    name: Some(format!("{name}-{}", volume.name)),
                    namespace: pod.metadata.namespace.clone(),
                    annotations: meta.annotations,
                    labels: meta.labels,
                    owner_references: Some(vec![owner]),
                    ..ObjectMeta::default()
                },
                spec: Some(template.spec.clone()),
                status: None,
            };
            Some((volume.name.clone(), claim))
        })
        .collect()
}

fn is_for(claim: &PersistentVolumeClaim, pod: &Pod) -> bool {
    let mut owners = claim.metadata.owner_references.iter().flatten();
    owners.any(|owner| {
        owner.controller == Some(true) && Some(&owner.uid) == pod.metadata.uid.as_ref()
    })
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
            if is_for(&there, pod) {
                return Ok(());
            }
            return Err(Error::Invalid(format!(
                "PVC {key} was not created for pod {pod_key} (pod is not owner)"
            )));
        }
        let api: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), &key.namespace);
        let created = api
            .create(&PostParams::default(), claim)
            .await
            .map_err(Error::api(format!("create PVC {}", key.name)))?;
        self.caches.claims.saw(&created).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
