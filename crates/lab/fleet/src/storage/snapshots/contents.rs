//! Content controller, as a driver's sidecar: takes and deletes snapshots.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::PostParams;
use runtime::{Absent as _, Error, Key, Next, Reconcile};

use super::kinds::{VolumeSnapshotContent, VolumeSnapshotContentStatus};
use super::{decide, failed};
use crate::storage::names::{CONTENT_BOUND, SNAPSHOT_LEAVING, annotation, has_finalizer};
use crate::storage::{Context, provision};

/// Time to take a snapshot.
const SNAPSHOT_TIME: Duration = Duration::from_secs(1);

pub(super) struct Contents {
    context: Context,
}

impl Contents {
    pub(super) fn new(context: Context) -> Self {
        Self { context }
    }
}

impl Reconcile for Contents {
    fn name(&self) -> &'static str {
        "snapshot contents"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let content = self.context.caches.contents.find(key);
        let Some(content) = content.filter(|content| decide::is_ours(content)) else {
            return Ok(Next::Wait);
        };
        if content.metadata.deletion_timestamp.is_some() {
            return self.release(key, &content).await;
        }
        if !has_finalizer(&content.metadata, CONTENT_BOUND) {
            let mut content = content.as_ref().clone();
            let finalizers = content.metadata.finalizers.get_or_insert_default();
            finalizers.push(CONTENT_BOUND.to_owned());
            self.write(key, &content).await?;
            return Ok(Next::Wait);
        }
        let ready = content
            .status
            .as_ref()
            .and_then(|status| status.ready_to_use);
        let leaving = annotation(&content.metadata, SNAPSHOT_LEAVING).is_some();
        if ready == Some(true) || leaving {
            return Ok(Next::Wait);
        }
        if content.spec.source.volume_handle.is_some()
            && let Some(left) = self
                .context
                .pace
                .left(&format!("snapshot {key}"), SNAPSHOT_TIME)
        {
            return Ok(Next::After(left));
        }
        let status = self.taken(&content);
        let mut content = content.as_ref().clone();
        content.status = Some(status);
        let written = self
            .api()
            .replace_status(&key.name, &PostParams::default(), &content)
            .await
            .map_err(failed("update status of", "snapshot content", key))?;
        self.context.caches.contents.saw(&written).await;
        Ok(Next::Wait)
    }
}

impl Contents {
    fn api(&self) -> Api<VolumeSnapshotContent> {
        Api::all(self.context.client.clone())
    }

    /// The status of a content whose snapshot has been taken or was pre-provisioned.
    fn taken(&self, content: &VolumeSnapshotContent) -> VolumeSnapshotContentStatus {
        let source = &content.spec.source;
        let volume = source.volume_handle.as_deref().unwrap_or_default();
        let volume = self.context.caches.volumes.get("", volume);
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

    async fn write(&self, key: &Key, content: &VolumeSnapshotContent) -> Result<(), Error> {
        let written = self
            .api()
            .replace(&key.name, &PostParams::default(), content)
            .await
            .not_found_as_none()
            .map_err(failed("update", "snapshot content", key))?;
        if let Some(written) = written {
            self.context.caches.contents.saw(&written).await;
        }
        Ok(())
    }

    /// Releases a content when its snapshot is gone or being deleted.
    async fn release(&self, key: &Key, content: &VolumeSnapshotContent) -> Result<Next, Error> {
        let of = &content.spec.volume_snapshot_ref;
        let snapshot = self.context.caches.snapshots.get(
            of.namespace.as_deref().unwrap_or_default(),
            of.name.as_deref().unwrap_or_default(),
        );
        let bound = snapshot.is_some_and(|snapshot| {
            decide::belongs(content, &snapshot) && snapshot.metadata.deletion_timestamp.is_none()
        });
        if bound || !has_finalizer(&content.metadata, CONTENT_BOUND) {
            return Ok(Next::Wait);
        }
        let mut freed = content.clone();
        if let Some(finalizers) = &mut freed.metadata.finalizers {
            finalizers.retain(|it| it != CONTENT_BOUND);
        }
        self.write(key, &freed).await?;
        Ok(Next::Wait)
    }
}
