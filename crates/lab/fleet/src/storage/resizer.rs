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
use machinery::quantity::Quantity as Amount;
use runtime::{Error, Events, Key, Manager, Next, Queue, Reconcile};

use super::Context;
use super::names::{DRIVER, driver_of};
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
    queue.enqueue_mapped(&context.caches.claims, |change| {
        let claim = change.new.as_ref()?;
        wanted(claim).map(|_| Key::of(&claim.metadata))
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
    if !conditions.iter().any(|it| it.type_ == RESIZING) {
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
    status.conditions.take_if(|all| all.is_empty());
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
        let volume = caches.volume_of(&claim);
        let ours = volume.filter(|volume| driver_of(volume) == Some(DRIVER));
        let class = caches.classes.get("", provision::class_name(&claim));
        let allowed = class.is_some_and(|class| class.allow_volume_expansion == Some(true));
        let (Some(volume), Some(size)) = (ours.filter(|_| allowed), wanted(&claim)) else {
            return Ok(Next::Wait);
        };
        let status = claim.status.clone().unwrap_or_default();
        let begun = begun(&status, &size);
        let (claims, pace) = (&self.context.claims, &self.context.pace);
        let claim = if begun == status {
            claim
        } else {
            let name = volume.metadata.name.as_deref().unwrap_or_default();
            let text = format!("External resizer is resizing volume {name}");
            self.events.normal(claim.as_ref(), RESIZING, text);
            Arc::new(claims.replace_status(&claim.metadata, &begun).await?)
        };
        if let Some(left) = pace.left(&format!("resize {key} {}", size.0), EXPAND_TIME) {
            return Ok(Next::After(left));
        }
        // The volume before the claim: a crash in between leaves a claim that still asks for more,
        // and the next reconcile finds the volume large enough.
        self.enlarge(&volume, &size).await?;
        let status = ended(&claim.status.clone().unwrap_or_default(), &size);
        let claim = claims.replace_status(&claim.metadata, &status).await?;
        let text = "Resize volume succeeded";
        self.events.normal(&claim, "VolumeResizeSuccessful", text);
        Ok(Next::Wait)
    }
}

impl Resizer {
    async fn enlarge(&self, volume: &PersistentVolume, size: &Quantity) -> Result<(), Error> {
        let amount: Option<Amount> = size.0.parse().ok();
        if provision::size(volume) >= amount {
            return Ok(());
        }
        let mut volume = volume.clone();
        let capacity = &mut volume.spec.get_or_insert_default().capacity;
        capacity
            .get_or_insert_default()
            .insert("storage".to_owned(), size.clone());
        self.context.volumes.replace(&volume).await.map(drop)
    }
}

#[cfg(test)]
mod tests;
