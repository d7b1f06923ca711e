//! Expands volumes when their claims request more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{
    PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimCondition,
    PersistentVolumeClaimStatus,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::PostParams;
use machinery::quantity::Quantity as Amount;
use runtime::{Error, Events, Key, Manager, Next, Queue, Reconcile};

use super::Context;
use super::names::DRIVER;
use super::provision;

/// Time to expand a volume.
const EXPAND_TIME: Duration = Duration::from_millis(500);
const IN_PROGRESS: &str = "ControllerResizeInProgress";
const RESIZING: &str = "Resizing";
const WORKERS: usize = 2;

struct Resizer {
    context: Context,
    events: Events,
}

/// The requested size of a claim, if it exceeds its capacity.
fn wanted(claim: &PersistentVolumeClaim) -> Option<Quantity> {
    let status = claim.status.as_ref()?;
    if status.phase.as_deref() != Some("Bound") || claim.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let has: Amount = status.capacity.as_ref()?.get("storage")?.0.parse().ok()?;
    let (quantity, amount) = provision::requested(claim)?;
    (amount > has).then_some(quantity)
}

pub(super) fn start(manager: &Manager, context: &Context) {
    let queue: Queue<Key> = Queue::new();
    let to = queue.clone();
    context.caches.claims.on_change(move |change| {
        if let Some(claim) = change.new.as_ref().filter(|claim| wanted(claim).is_some()) {
            to.add(Key::of(&claim.metadata));
        }
    });
    let resizer = Resizer {
        context: context.clone(),
        events: manager.events("external-resizer storage.fleet.medley.dev"),
    };
    manager.start(resizer, &queue, WORKERS);
}

/// The status of a claim whose volume is being expanded.
fn begun(status: &PersistentVolumeClaimStatus, size: &Quantity) -> PersistentVolumeClaimStatus {
    let mut status = status.clone();
    let storage = || "storage".to_owned();
    status.allocated_resources = Some(BTreeMap::from([(storage(), size.clone())]));
    status.allocated_resource_statuses =
        Some(BTreeMap::from([(storage(), IN_PROGRESS.to_owned())]));
    let conditions = status.conditions.get_or_insert_default();
    if !conditions
        .iter()
        .any(|condition| condition.type_ == RESIZING)
    {
        conditions.push(PersistentVolumeClaimCondition {
            type_: RESIZING.to_owned(),
            status: "True".to_owned(),
            last_transition_time: Some(Time(Timestamp::now())),
            ..PersistentVolumeClaimCondition::default()
        });
    }
    status
}

/// The status of a claim whose volume has been expanded.
fn ended(status: &PersistentVolumeClaimStatus, size: &Quantity) -> PersistentVolumeClaimStatus {
    let mut status = status.clone();
    let capacity = status.capacity.get_or_insert_default();
    capacity.insert("storage".to_owned(), size.clone());
    status.allocated_resource_statuses = None;
    if let Some(conditions) = &mut status.conditions {
        conditions.retain(|condition| condition.type_ != RESIZING);
    }
    status.conditions = status
        .conditions
        .filter(|conditions| !conditions.is_empty());
    status
}

impl Reconcile for Resizer {
    fn name(&self) -> &'static str {
        "resizer"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let caches = &self.context.caches;
        let Some(claim) = caches.claims.find(key) else {
            return Ok(Next::Wait);
        };
        let name = claim
            .spec
            .as_ref()
            .and_then(|spec| spec.volume_name.as_deref());
        let volume = caches.volumes.get("", name.unwrap_or_default());
        let ours = volume.filter(|volume| {
            let csi = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref());
            csi.is_some_and(|csi| csi.driver == DRIVER)
        });
        let class = caches.classes.get("", provision::class_name(&claim));
        let allowed = class.is_some_and(|class| class.allow_volume_expansion == Some(true));
        let (Some(volume), Some(size)) = (ours.filter(|_| allowed), wanted(&claim)) else {
            return Ok(Next::Wait);
        };
        let status = claim.status.clone().unwrap_or_default();
        let begun = begun(&status, &size);
        let claim = if begun == status {
            claim
        } else {
            let name = volume.metadata.name.as_deref().unwrap_or_default();
            let text = format!("External resizer is resizing volume {name}");
            self.events.normal(claim.as_ref(), RESIZING, text);
            self.write_status(key, &claim, begun).await?
        };
        if let Some(left) = self
            .context
            .pace
            .left(&format!("resize {key} {}", size.0), EXPAND_TIME)
        {
            return Ok(Next::After(left));
        }
        self.enlarge(&volume, &size).await?;
        let status = ended(&claim.status.clone().unwrap_or_default(), &size);
        let claim = self.write_status(key, &claim, status).await?;
        self.events.normal(
            claim.as_ref(),
            "VolumeResizeSuccessful",
            "Resize volume succeeded",
        );
        Ok(Next::Wait)
    }
}

impl Resizer {
    async fn write_status(
        &self,
        key: &Key,
        claim: &PersistentVolumeClaim,
        status: PersistentVolumeClaimStatus,
    ) -> Result<Arc<PersistentVolumeClaim>, Error> {
        let api: Api<PersistentVolumeClaim> =
            Api::namespaced(self.context.client.clone(), &key.namespace);
        let mut claim = claim.clone();
        claim.status = Some(status);
        let written = api
            .replace_status(&key.name, &PostParams::default(), &claim)
            .await
            .map_err(Error::api(format!("update status of claim {key}")))?;
        self.context.caches.claims.saw(&written).await;
        Ok(Arc::new(written))
    }

    async fn enlarge(&self, volume: &PersistentVolume, size: &Quantity) -> Result<(), Error> {
        let amount: Option<Amount> = size.0.parse().ok();
        if provision::size(volume) >= amount {
            return Ok(());
        }
        let name = volume.metadata.name.clone().unwrap_or_default();
        let mut volume = volume.clone();
        let capacity = &mut volume.spec.get_or_insert_default().capacity;
        capacity
            .get_or_insert_default()
            .insert("storage".to_owned(), size.clone());
        let api: Api<PersistentVolume> = Api::all(self.context.client.clone());
        let written = api
            .replace(&name, &PostParams::default(), &volume)
            .await
            .map_err(Error::api(format!("enlarge volume {name}")))?;
        self.context.caches.volumes.saw(&written).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
