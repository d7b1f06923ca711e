//! Provisions the volumes of claims.

use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use runtime::{Error, Events, Key, Manager, Next, Queue, Reconcile};
use serde_json::json;

use super::Context;
use super::names::{DRIVER, SELECTED_NODE, annotation};
use super::provision::{self, Origin, Source};

/// Time to provision a volume.
const PROVISION_TIME: Duration = Duration::from_millis(500);
/// Delay before a failed operation is retried.
const RETRY_DELAY: Duration = Duration::from_secs(5);
const WORKERS: usize = 4;

struct Provisioner {
    context: Context,
    events: Events,
}

pub(super) fn start(manager: &Manager, context: &Context) {
    let queue: Queue<Key> = Queue::new();
    let to = queue.clone();
    let made_from = context.caches.claims_by_source.clone();
    context.caches.claims.on_change(move |change| {
        if let Some(claim) = change
            .new
            .as_ref()
            .filter(|claim| provision::is_asked(claim))
        {
            to.add(Key::of(&claim.metadata));
        }
    });
    let to = queue.clone();
    let from_claims = made_from.clone();
    context.caches.volumes.on_change(move |change| {
        let volume = change.new.as_ref().and_then(|volume| volume.spec.as_ref());
        let Some(claim) = volume.and_then(|spec| spec.claim_ref.as_ref()) else {
            return;
        };
        let namespace = claim.namespace.as_deref().unwrap_or_default();
        let name = claim.name.as_deref().unwrap_or_default();
        for waiting in from_claims.find(&provision::claim_key(namespace, name)) {
            to.add(Key::of(&waiting.metadata));
        }
    });
    let to = queue.clone();
    context.caches.snapshots.on_change(move |change| {
        let Some(snapshot) = &change.new else {
            return;
        };
        let key = Key::of(&snapshot.metadata);
        for waiting in made_from.find(&provision::snapshot_key(&key.namespace, &key.name)) {
            to.add(Key::of(&waiting.metadata));
        }
    });
    let provisioner = Provisioner {
        context: context.clone(),
        events: manager.events(DRIVER),
    };
    manager.start(provisioner, &queue, WORKERS);
}

impl Reconcile for Provisioner {
    fn name(&self) -> &'static str {
        "provisioner"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let caches = &self.context.caches;
        let claim = caches
            .claims
            .find(key)
            .filter(|claim| provision::is_asked(claim));
        let Some(claim) = claim else {
            return Ok(Next::Wait);
        };
        let name = provision::volume_name(&claim);
        if caches.volumes.get("", &name).is_some() {
            return Ok(Next::Wait);
        }
        let class_name = provision::class_name(&claim);
        let Some(class) = caches.classes.get("", class_name) else {
            return Ok(Next::Wait);
        };
        let chosen = annotation(&claim.metadata, SELECTED_NODE);
        let late = class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer");
        if late && chosen.is_none() {
            return Ok(Next::Wait);
        }
        let node = chosen.and_then(|name| caches.nodes.get("", name));
        if late && node.is_none() {
            self.choose_again(key, &claim).await?;
            return Ok(Next::Wait);
        }
        let made = self
            .origin(key, &claim)
            .and_then(|origin| provision::volume(&claim, &class, node.as_deref(), origin.as_ref()));
        let volume = match made {
            Ok(volume) => volume,
            Err(why) => {
                let text =
                    format!("failed to provision volume with StorageClass {class_name:?}: {why}");
                self.events
                    .warning(claim.as_ref(), "ProvisioningFailed", text);
                return Ok(Next::After(RETRY_DELAY));
            }
        };
        if let Some(left) = self
            .context
            .pace
            .left(&format!("provision {name}"), PROVISION_TIME)
        {
            let text = format!("External provisioner is provisioning volume for claim \"{key}\"");
            self.events.normal(claim.as_ref(), "Provisioning", text);
            return Ok(Next::After(left));
        }
        self.create(&claim, &volume).await?;
        Ok(Next::Wait)
    }
}

impl Provisioner {
    /// Removes the selected node, which no longer exists, so that the scheduler selects another.
    async fn choose_again(&self, key: &Key, claim: &PersistentVolumeClaim) -> Result<(), Error> {
        let api: Api<PersistentVolumeClaim> =
            Api::namespaced(self.context.client.clone(), &key.namespace);
        let patch = json!({ "metadata": {
            "resourceVersion": claim.metadata.resource_version,
            "annotations": { SELECTED_NODE: null },
        } });
        let written = api
            .patch(&key.name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .map_err(Error::api(format!("choose another node for claim {key}")))?;
        self.context.caches.claims.saw(&written).await;
        Ok(())
    }

    async fn create(
        &self,
        claim: &PersistentVolumeClaim,
        volume: &PersistentVolume,
    ) -> Result<(), Error> {
        let name = volume.metadata.name.clone().unwrap_or_default();
        let api: Api<PersistentVolume> = Api::all(self.context.client.clone());
        match api.create(&PostParams::default(), volume).await {
            Ok(created) => {
                self.context.caches.volumes.saw(&created).await;
                let text = format!("Successfully provisioned volume {name}");
                self.events.normal(claim, "ProvisioningSucceeded", text);
                Ok(())
            }
            // It was created by an earlier attempt that did not record it.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(Error::api(format!("create volume {name}"))(error)),
        }
    }

    /// The data source of a claim's volume, or why it is not available yet.
    fn origin(&self, key: &Key, claim: &PersistentVolumeClaim) -> Result<Option<Origin>, String> {
        let source = provision::source(claim);
        let found = match &source {
            Source::Empty | Source::OptionalKinds => return Ok(None),
            Source::Claim(name) => self.claim_origin(&key.namespace, name),
            Source::Snapshot(name) => self.snapshot_origin(&key.namespace, name),
        };
        found
            .map(Some)
            .map_err(|why| format!("{}: {why}", provision::describe(&source, key)))
    }

    fn claim_origin(&self, namespace: &str, name: &str) -> Result<Origin, String> {
        let caches = &self.context.caches;
        let claim = caches.claims.get(namespace, name).ok_or_else(|| {
            format!(
                "error getting PVC {name} ({namespace}) from api server: persistentvolumeclaims {name:?} not found"
            )
        })?;
        let phase = claim
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref());
        if phase != Some("Bound") {
            return Err(format!(
                "the PVC data source {name} should be in state Bound but is in {}",
                phase.unwrap_or_default()
            ));
        }
        let volume = claim
            .spec
            .as_ref()
            .and_then(|spec| spec.volume_name.clone());
        let volume = volume.and_then(|volume| caches.volumes.get("", &volume));
        let volume = volume.ok_or_else(|| format!("the volume of PVC {name} is gone"))?;
        let handle = volume
            .spec
            .as_ref()
            .and_then(|spec| spec.csi.as_ref())
            .filter(|csi| csi.driver == DRIVER)
            .map(|csi| csi.volume_handle.clone())
            .ok_or_else(|| format!("the source PVC {name} is not of the driver {DRIVER}"))?;
        Ok(Origin {
            attribute: ("sourceVolume", handle),
            size: provision::size(&volume),
        })
    }

    fn snapshot_origin(&self, namespace: &str, name: &str) -> Result<Origin, String> {
        let caches = &self.context.caches;
        let snapshot = caches.snapshots.get(namespace, name).ok_or_else(|| {
            format!(
                "error getting snapshot {name} from api server: volumesnapshots.snapshot.storage.k8s.io {name:?} not found"
            )
        })?;
        if snapshot.metadata.deletion_timestamp.is_some() {
            return Err(format!("snapshot {name} is currently being deleted"));
        }
        let status = snapshot.status.clone().unwrap_or_default();
        if status.ready_to_use != Some(true) {
            return Err(format!("snapshot {name} is not Ready"));
        }
        let content = status
            .bound_volume_snapshot_content_name
            .unwrap_or_default();
        let content = caches
            .contents
            .get("", &content)
            .ok_or_else(|| format!("snapshot {name} not bound"))?;
        if content.spec.driver != DRIVER {
            return Err(format!(
                "incorrect driver name for snapshot {name}. Expected: {DRIVER}, Actual: {}",
                content.spec.driver
            ));
        }
        let handle = content
            .status
            .as_ref()
            .and_then(|status| status.snapshot_handle.clone());
        Ok(Origin {
            attribute: (
                "sourceSnapshot",
                handle.ok_or_else(|| format!("snapshot handle of {name} is empty"))?,
            ),
            size: status.restore_size.and_then(|size| size.0.parse().ok()),
        })
    }
}
