//! Deletes released volumes of this driver.

use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolume;
use kube::Api;
use kube::api::{DeleteParams, PostParams, Preconditions};
use runtime::{Absent as _, Error, Key, Manager, Next, Queue, Reconcile};

use super::Context;
use super::names::{DRIVER, PROVISIONED_BY, VOLUME_FINALIZER, annotation, has_finalizer};

/// Time to delete a volume.
const DELETE_TIME: Duration = Duration::from_millis(300);
const WORKERS: usize = 4;

struct Reclaimer {
    context: Context,
}

/// The next action for a volume.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Nothing,
    /// Delete the storage, then the object.
    Delete,
    /// Remove the finalizer only; the storage is kept.
    LetGo,
}

fn step(volume: &PersistentVolume) -> Step {
    let Some(spec) = &volume.spec else {
        return Step::Nothing;
    };
    let driver = spec.csi.as_ref().map(|csi| csi.driver.as_str());
    if annotation(&volume.metadata, PROVISIONED_BY) != Some(DRIVER) || driver != Some(DRIVER) {
        return Step::Nothing;
    }
    let phase = volume
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    let leaving = volume.metadata.deletion_timestamp.is_some();
    let deletes = spec.persistent_volume_reclaim_policy.as_deref() == Some("Delete");
    match phase {
        Some("Released" | "Failed") if deletes => Step::Delete,
        Some("Bound") | None => Step::Nothing,
        Some(_) if leaving && deletes => Step::Delete,
        Some(_) if leaving && has_finalizer(&volume.metadata, VOLUME_FINALIZER) => Step::LetGo,
        Some(_) => Step::Nothing,
    }
}

pub(super) fn start(manager: &Manager, context: &Context) {
    let queue: Queue<Key> = Queue::new();
    let to = queue.clone();
    context.caches.volumes.on_change(move |change| {
        if let Some(volume) = change
            .new
            .as_ref()
            .filter(|volume| step(volume) != Step::Nothing)
        {
            to.add(Key::of(&volume.metadata));
        }
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
        if step == Step::Nothing {
            return Ok(Next::Wait);
        }
        let has_it = has_finalizer(&volume.metadata, VOLUME_FINALIZER);
        if step == Step::Delete
            && let Some(left) = self
                .context
                .pace
                .left(&format!("delete {key}"), DELETE_TIME)
        {
            return Ok(Next::After(left));
        }
        let api: Api<PersistentVolume> = Api::all(self.context.client.clone());
        if volume.metadata.deletion_timestamp.is_none() {
            let params = DeleteParams {
                preconditions: Some(Preconditions {
                    uid: volume.metadata.uid.clone(),
                    resource_version: None,
                }),
                ..DeleteParams::default()
            };
            api.delete(&key.name, &params)
                .await
                .not_found_as_none()
                .map_err(Error::api(format!("delete volume {key}")))?;
            self.context
                .caches
                .volumes
                .wait_for_deletion(&volume.metadata)
                .await;
        }
        // The deletion changed the object, so it is read again.
        let Some(mut volume) = self.context.caches.volumes.find(key).filter(|_| has_it) else {
            return Ok(Next::Wait);
        };
        let finalizers = &mut std::sync::Arc::make_mut(&mut volume).metadata.finalizers;
        if let Some(finalizers) = finalizers {
            finalizers.retain(|it| it != VOLUME_FINALIZER);
        }
        let written = api
            .replace(&key.name, &PostParams::default(), &volume)
            .await
            .not_found_as_none()
            .map_err(Error::api(format!("let volume {key} go")))?;
        if let Some(written) = written {
            self.context.caches.volumes.saw(&written).await;
        }
        Ok(Next::Wait)
    }
}

#[cfg(test)]
mod tests;
