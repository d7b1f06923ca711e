//! Provisions the volumes of claims.

use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use runtime::{Error, Events, Key, Manager, Next, Queue, Reconcile};
use serde_json::json;

use super::Context;
use super::names::{DRIVER, SELECTED_NODE};
use super::provision::{self, Origin, Source};
use crate::names::annotation;

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
    queue.enqueue_mapped(&context.caches.claims, |change| {
        let claim = change.new.as_ref().filter(|it| provision::is_asked(it));
        claim.map(|claim| Key::of(&claim.metadata))
    });
    // Claims wait for their data source: the volume of another claim, or a snapshot.
    let waiting = context.caches.claims_by_source.clone();
    let keys = move |source: Option<String>| -> Vec<Key> {
        let found = source.map(|source| waiting.find(&source));
        let found = found.unwrap_or_default();
        found.iter().map(|it| Key::of(&it.metadata)).collect()
    };
    let of_claim = keys.clone();
    queue.enqueue_mapped(&context.caches.volumes, move |change| {
        let volume = change.new.as_ref();
        let claim = volume.and_then(|volume| volume.spec.as_ref()?.claim_ref.as_ref());
        of_claim(claim.map(|claim| {
            let namespace = claim.namespace.as_deref().unwrap_or_default();
            provision::claim_key(namespace, claim.name.as_deref().unwrap_or_default())
        }))
    });
    queue.enqueue_mapped(&context.caches.snapshots, move |change| {
        let key = change.new.as_ref().map(|it| Key::of(&it.metadata));
        keys(key.map(|key| provision::snapshot_key(&key.namespace, &key.name)))
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
        let claim = caches.claims.find(key);
        let Some(claim) = claim.filter(|claim| provision::is_asked(claim)) else {
            return Ok(Next::Wait);
        };
        let name = provision::volume_name(&claim);
        // The name contains the UID of the claim, which makes provisioning idempotent without a
        // record of its own, as in the external-provisioner.
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
            // The selected node no longer exists: the scheduler selects another.
            let patch = json!({ "metadata": { "annotations": { SELECTED_NODE: null } } });
            let claims = &self.context.claims;
            claims.merge_into(&claim.metadata, patch).await?;
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
        let pace = &self.context.pace;
        // After the volume could be rendered: an error is reported at once and not after the
        // simulated time.
        if let Some(left) = pace.left(&format!("provision {name}"), PROVISION_TIME) {
            let text = format!("External provisioner is provisioning volume for claim \"{key}\"");
            self.events.normal(claim.as_ref(), "Provisioning", text);
            return Ok(Next::After(left));
        }
        // An existing one was created by an earlier attempt that did not record it.
        let created = self.context.volumes.create_if_absent(&volume).await?;
        if created.is_some() {
            let text = format!("Successfully provisioned volume {name}");
            self.events
                .normal(claim.as_ref(), "ProvisioningSucceeded", text);
        }
        Ok(Next::Wait)
    }
}

impl Provisioner {
    /// The data source of a claim's volume, or why it is not available yet.
    fn origin(&self, key: &Key, claim: &PersistentVolumeClaim) -> Result<Option<Origin>, String> {
        let source = provision::source(claim);
        let found = match &source {
            Source::Empty | Source::Other => return Ok(None),
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
        let phase = claim.status.as_ref().and_then(|it| it.phase.as_deref());
        if phase != Some("Bound") {
            return Err(format!(
                "the PVC data source {name} should be in state Bound but is in {}",
                phase.unwrap_or_default()
            ));
        }
        let volume = caches.volume_of(&claim);
        let volume = volume.ok_or_else(|| format!("the volume of PVC {name} is gone"))?;
        let csi = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref());
        let handle = csi
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
        let handle = content.status.as_ref();
        let handle = handle.and_then(|status| status.snapshot_handle.clone());
        let handle = handle.ok_or_else(|| format!("snapshot handle of {name} is empty"))?;
        Ok(Origin {
            attribute: ("sourceSnapshot", handle),
            size: status.restore_size.and_then(|size| size.0.parse().ok()),
        })
    }
}
