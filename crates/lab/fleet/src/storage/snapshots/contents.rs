//! Content controller, as a driver's sidecar: takes and deletes snapshots.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use runtime::{Absent as _, Error, Key, Next, Reconcile};

use super::decide;
use super::kinds::{VolumeSnapshotContent, VolumeSnapshotContentStatus};
use crate::names::annotation;
use crate::storage::names::{CONTENT_BOUND, SNAPSHOT_LEAVING, has_finalizer};
use crate::storage::{Context, provision};

/// Time to take a snapshot.
const SNAPSHOT_TIME: Duration = Duration::from_secs(1);

pub(super) struct Contents(pub(super) Context);

impl Reconcile for Contents {
    fn name(&self) -> &'static str {
        "snapshot contents"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let content = self.0.caches.contents.find(key);
        let Some(content) = content.filter(|content| decide::is_ours(content)) else {
            return Ok(Next::Wait);
        };
        if content.metadata.deletion_timestamp.is_some() {
            return self.release(&content).await;
        }
        if !has_finalizer(&content.metadata, CONTENT_BOUND) {
            return self.protect(&content, true).await;
        }
        let status = content.status.as_ref();
        let ready = status.and_then(|status| status.ready_to_use);
        let leaving = annotation(&content.metadata, SNAPSHOT_LEAVING).is_some();
        if ready == Some(true) || leaving {
            return Ok(Next::Wait);
        }
        let what = format!("snapshot {key}");
        if content.spec.source.volume_handle.is_some()
            && let Some(left) = self.0.pace.left(&what, SNAPSHOT_TIME)
        {
            return Ok(Next::After(left));
        }
        let status = self.taken(&content);
        let contents = &self.0.contents;
        contents.replace_status(&content.metadata, &status).await?;
        Ok(Next::Wait)
    }
}

impl Contents {
    /// The status of a content whose snapshot has been taken or was pre-provisioned.
    fn taken(&self, content: &VolumeSnapshotContent) -> VolumeSnapshotContentStatus {
        let source = &content.spec.source;
        let volume = source.volume_handle.as_deref().unwrap_or_default();
        let volume = self.0.caches.volumes.get("", volume);
        let size = volume.and_then(|volume| provision::size(&volume));
        let uid = content.metadata.uid.as_deref().unwrap_or_default();
        let handle = source.snapshot_handle.clone();
        VolumeSnapshotContentStatus {
            creation_time: i64::try_from(Timestamp::now().as_nanosecond()).ok(),
            error: None,
            ready_to_use: Some(true),
            restore_size: Some(size.map_or(0, |size| size.value())),
            snapshot_handle: Some(handle.unwrap_or_else(|| format!("snapshot-{uid}"))),
        }
    }

    /// Adds or removes the finalizer.
    async fn protect(&self, content: &VolumeSnapshotContent, wanted: bool) -> Result<Next, Error> {
        let contents = &self.0.contents;
        let written = contents.set_finalizer(&content.metadata, CONTENT_BOUND, wanted);
        written.await.not_found_as_none()?;
        Ok(Next::Wait)
    }

    /// Releases a content when its snapshot is gone or being deleted.
    async fn release(&self, content: &VolumeSnapshotContent) -> Result<Next, Error> {
        let of = &content.spec.volume_snapshot_ref;
        let snapshot = self.0.caches.snapshots.get(
            of.namespace.as_deref().unwrap_or_default(),
            of.name.as_deref().unwrap_or_default(),
        );
        let bound = snapshot.is_some_and(|snapshot| {
            decide::belongs(content, &snapshot) && snapshot.metadata.deletion_timestamp.is_none()
        });
        if bound || !has_finalizer(&content.metadata, CONTENT_BOUND) {
            return Ok(Next::Wait);
        }
        self.protect(content, false).await
    }
}
