//! Deletes released volumes of this driver.

use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolume;
use runtime::{Absent as _, Error, Key, Manager, Next, Queue, Reconcile};

use super::Context;
use super::names::{DRIVER, PROVISIONED_BY, VOLUME_FINALIZER, driver_of, has_finalizer};
use crate::names::annotation;

/// Time to delete a volume.
const DELETE_TIME: Duration = Duration::from_millis(300);
const WORKERS: usize = 4;

struct Reclaimer {
    context: Context,
}

/// The next action for a volume.
#[derive(Debug, PartialEq, Eq)]
enum ReclaimStep {
    Nothing,
    /// Delete the storage, then the object.
    Delete,
    /// Remove the finalizer only; the storage is kept.
    LetGo,
}

fn step(volume: &PersistentVolume) -> ReclaimStep {
    let provisioned_by = annotation(&volume.metadata, PROVISIONED_BY);
    if provisioned_by != Some(DRIVER) || driver_of(volume) != Some(DRIVER) {
        return ReclaimStep::Nothing;
    }
    let phase = volume.status.as_ref().and_then(|it| it.phase.as_deref());
    let leaving = volume.metadata.deletion_timestamp.is_some();
    let spec = volume.spec.as_ref();
    let policy = spec.and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    let deletes = policy == Some("Delete");
    match phase {
        Some("Released" | "Failed") if deletes => ReclaimStep::Delete,
        Some("Bound") | None => ReclaimStep::Nothing,
        Some(_) if leaving && deletes => ReclaimStep::Delete,
        Some(_) if leaving && has_finalizer(&volume.metadata, VOLUME_FINALIZER) => {
            ReclaimStep::LetGo
        }
        Some(_) => ReclaimStep::Nothing,
    }
}

pub(super) fn start(manager: &Manager, context: &Context) {
    let queue: Queue<Key> = Queue::new();
    queue.enqueue_mapped(&context.caches.volumes, |change| {
        let volume = change
            .new
            .as_ref()
            .filter(|it| step(it) != ReclaimStep::Nothing);
        volume.map(|volume| Key::of(&volume.metadata))
    });
    let reclaimer = Reclaimer {
        context: context.clone(),
    };
    manager.start(reclaimer, &queue, WORKERS);
}

impl Reconcile for Reclaimer {
    fn name(&self) -> &'static str {
        "reclaimer"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(volume) = self.context.caches.volumes.find(key) else {
            return Ok(Next::Wait);
        };
        let step = step(&volume);
        if step == ReclaimStep::Nothing {
            return Ok(Next::Wait);
        }
        let (volumes, pace) = (&self.context.volumes, &self.context.pace);
        if step == ReclaimStep::Delete
            && let Some(left) = pace.left(&format!("delete {key}"), DELETE_TIME)
        {
            return Ok(Next::After(left));
        }
        if volume.metadata.deletion_timestamp.is_none() {
            volumes.delete(&volume.metadata).await?;
        }
        // The deletion changed the object, so it is read again.
        let volume = self.context.caches.volumes.find(key);
        if let Some(volume) = volume.filter(|it| has_finalizer(&it.metadata, VOLUME_FINALIZER)) {
            let removed = volumes.set_finalizer(&volume.metadata, VOLUME_FINALIZER, false);
            removed.await.not_found_as_none()?;
        }
        Ok(Next::Wait)
    }
}

#[cfg(test)]
mod tests;
