//! Snapshot controller: creates contents, reports their state, and releases snapshots.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use runtime::{Absent as _, Error, Events, Key, Next, Reconcile};
use serde_json::json;

use super::decide;
use super::kinds::{VolumeSnapshot, VolumeSnapshotContent, VolumeSnapshotStatus};
use crate::names::annotation;
use crate::storage::names::{
    CLAIM_AS_SOURCE, SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND, SNAPSHOT_LEAVING, driver_of, has_finalizer,
};
use crate::storage::{Context, provision};

/// Delay before a failed operation is retried.
const RETRY_DELAY: Duration = Duration::from_secs(5);

pub(super) struct Snapshots {
    pub(super) context: Context,
    pub(super) events: Events,
}

impl Reconcile for Snapshots {
    fn name(&self) -> &'static str {
        "snapshots"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(snapshot) = self.context.caches.snapshots.find(key) else {
            return Ok(Next::Wait);
        };
        if snapshot.metadata.deletion_timestamp.is_some() {
            return self.release(key, &snapshot).await;
        }
        // Finalizers before the content exists: a snapshot deleted in between would leave a content
        // without an owner.
        let snapshot = self.protect(&snapshot).await?;
        let next = match self.content(&snapshot).await? {
            Ok(Some(content)) => {
                self.report(key, &snapshot, decide::status(&content))
                    .await?;
                Next::Wait
            }
            Ok(None) => Next::Wait,
            Err(why) => {
                let text = format!("Failed to create snapshot content with error {why}");
                let reason = "SnapshotContentCreationFailed";
                self.events.warning(snapshot.as_ref(), reason, text.clone());
                let status = decide::trouble(&snapshot, text, Time(Timestamp::now()));
                self.report(key, &snapshot, status).await?;
                Next::After(RETRY_DELAY)
            }
        };
        // Last, since it depends on whether the snapshot is ready now.
        self.protect_claim(key, &snapshot).await?;
        Ok(next)
    }
}

impl Snapshots {
    /// Adds the finalizers of a snapshot, and the default class if it names none.
    async fn protect(&self, snapshot: &Arc<VolumeSnapshot>) -> Result<Arc<VolumeSnapshot>, Error> {
        let mut wanted = snapshot.as_ref().clone();
        for finalizer in [SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND] {
            if !has_finalizer(&wanted.metadata, finalizer) {
                let finalizers = wanted.metadata.finalizers.get_or_insert_default();
                finalizers.push(finalizer.to_owned());
            }
        }
        let dynamic = decide::claim_name(&wanted).is_some();
        if dynamic && wanted.spec.volume_snapshot_class_name.is_none() {
            let classes = self.context.caches.snapshot_classes.list();
            let driver = self.source_driver(&wanted);
            if let Some(driver) = driver
                && let Ok(class) = decide::class(&wanted, &classes, &driver)
            {
                wanted
                    .spec
                    .volume_snapshot_class_name
                    .clone_from(&class.metadata.name);
            }
        }
        if wanted == **snapshot {
            return Ok(Arc::clone(snapshot));
        }
        self.context.snapshots.replace(&wanted).await.map(Arc::new)
    }

    /// The driver of the snapshotted volume.
    fn source_driver(&self, snapshot: &VolumeSnapshot) -> Option<String> {
        let namespace = snapshot.metadata.namespace.as_deref()?;
        let caches = &self.context.caches;
        let name = decide::claim_name(snapshot)?;
        let volume = caches.volume_of(&*caches.claims.get(namespace, name)?)?;
        driver_of(&volume).map(str::to_owned)
    }

    /// The content of a snapshot, created if necessary. The inner error says why there is none.
    async fn content(
        &self,
        snapshot: &VolumeSnapshot,
    ) -> Result<Result<Option<Arc<VolumeSnapshotContent>>, String>, Error> {
        let caches = &self.context.caches;
        let name = decide::content_name(snapshot).unwrap_or_default();
        if let Some(content) = caches.contents.get("", &name) {
            if !decide::belongs(&content, snapshot) {
                return Ok(Err(format!(
                    "VolumeSnapshotContent [{name}] is bound to a different snapshot"
                )));
            }
            let bound = self.bind(snapshot, content).await?;
            return Ok(Ok(Some(bound)));
        }
        let Some(claim_name) = decide::claim_name(snapshot) else {
            return Ok(Err("VolumeSnapshotContent is missing".to_owned()));
        };
        match self.plan(snapshot, claim_name) {
            Ok(content) => self.create(snapshot, &content).await.map(Ok),
            Err(why) => Ok(Err(why)),
        }
    }

    fn plan(
        &self,
        snapshot: &VolumeSnapshot,
        claim_name: &str,
    ) -> Result<VolumeSnapshotContent, String> {
        let caches = &self.context.caches;
        let name = snapshot.metadata.name.as_deref().unwrap_or_default();
        let namespace = snapshot.metadata.namespace.as_deref().unwrap_or_default();
        let wrap = |why: String| {
            format!("failed to get input parameters to create snapshot {name}: {why:?}")
        };
        let claim = caches.claims.get(namespace, claim_name).ok_or_else(|| {
            wrap(format!(
                "failed to retrieve PVC {claim_name} from the lister: persistentvolumeclaim {claim_name:?} not found"
            ))
        })?;
        let volume = caches.volume_of(&claim).ok_or_else(|| {
            wrap(format!(
                "the PVC {claim_name} is not yet bound to a PV, will not attempt to take a snapshot"
            ))
        })?;
        let driver = driver_of(&volume).unwrap_or_default();
        let classes = caches.snapshot_classes.list();
        let class = decide::class(snapshot, &classes, driver).map_err(wrap)?;
        decide::content(snapshot, &volume, class).map_err(wrap)
    }

    async fn create(
        &self,
        snapshot: &VolumeSnapshot,
        content: &VolumeSnapshotContent,
    ) -> Result<Option<Arc<VolumeSnapshotContent>>, Error> {
        // An existing one was created by an earlier attempt that did not record it.
        let created = self.context.contents.create_if_absent(content).await?;
        if created.is_some() {
            let of = Key::of(&snapshot.metadata);
            let text = format!("Waiting for a snapshot {of} to be created by the CSI driver.");
            self.events.normal(snapshot, "CreatingSnapshot", text);
        }
        Ok(created.map(Arc::new))
    }

    /// Binds a pre-provisioned content to its snapshot.
    async fn bind(
        &self,
        snapshot: &VolumeSnapshot,
        content: Arc<VolumeSnapshotContent>,
    ) -> Result<Arc<VolumeSnapshotContent>, Error> {
        if content.spec.volume_snapshot_ref.uid == snapshot.metadata.uid {
            return Ok(content);
        }
        let uid = &snapshot.metadata.uid;
        let patch = json!({ "spec": { "volumeSnapshotRef": { "uid": uid } } });
        let contents = &self.context.contents;
        let written = contents.merge_into(&content.metadata, patch).await?;
        Ok(Arc::new(written))
    }

    async fn report(
        &self,
        key: &Key,
        snapshot: &VolumeSnapshot,
        status: VolumeSnapshotStatus,
    ) -> Result<(), Error> {
        if snapshot.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let snapshots = &self.context.snapshots;
        let written = snapshots
            .replace_status(&snapshot.metadata, &status)
            .await?;
        let created = |snapshot: &VolumeSnapshot| {
            let status = snapshot.status.as_ref();
            status.is_some_and(|it| it.creation_time.is_some())
        };
        if created(&written) && !created(snapshot) {
            let text = format!("Snapshot {key} was successfully created by the CSI driver.");
            self.events.normal(&written, "SnapshotCreated", text);
        }
        if decide::is_ready(&written) && !decide::is_ready(snapshot) {
            let text = format!("Snapshot {key} is ready to use.");
            self.events.normal(&written, "SnapshotReady", text);
        }
        Ok(())
    }

    /// Keeps the snapshotted claim until the snapshot is taken.
    async fn protect_claim(&self, key: &Key, snapshot: &VolumeSnapshot) -> Result<(), Error> {
        let Some(name) = decide::claim_name(snapshot) else {
            return Ok(());
        };
        let caches = &self.context.caches;
        let Some(claim) = caches.claims.get(&key.namespace, name) else {
            return Ok(());
        };
        let busy = caches
            .snapshots
            .in_namespace(&key.namespace)
            .iter()
            .any(|other| {
                decide::claim_name(other) == Some(name)
                    && !decide::is_ready(other)
                    && other.metadata.deletion_timestamp.is_none()
            });
        let has = has_finalizer(&claim.metadata, CLAIM_AS_SOURCE);
        // Finalizers must not be added to an object that is being deleted.
        if busy == has || (busy && claim.metadata.deletion_timestamp.is_some()) {
            return Ok(());
        }
        let claims = &self.context.claims;
        let written = claims.set_finalizer(&claim.metadata, CLAIM_AS_SOURCE, busy);
        written.await.not_found_as_none()?;
        Ok(())
    }

    /// Releases a snapshot when no claim is being restored from it and its content is gone.
    async fn release(&self, key: &Key, snapshot: &Arc<VolumeSnapshot>) -> Result<Next, Error> {
        let caches = &self.context.caches;
        self.protect_claim(key, snapshot).await?;
        let made = caches
            .claims_by_source
            .find(&provision::snapshot_key(&key.namespace, &key.name));
        let in_use = made.iter().any(|claim| {
            let status = claim.status.as_ref();
            status.is_some_and(|status| status.phase.as_deref() == Some("Pending"))
        });
        if in_use && has_finalizer(&snapshot.metadata, SNAPSHOT_AS_SOURCE) {
            return Ok(Next::Wait);
        }
        let name = decide::content_name(snapshot).unwrap_or_default();
        let content = caches.contents.get("", &name);
        let content = content.filter(|content| decide::belongs(content, snapshot));
        if let Some(content) = content {
            self.announce(&content).await?;
            if content.spec.deletion_policy == "Delete" {
                if content.metadata.deletion_timestamp.is_none() {
                    self.context.contents.delete(&content.metadata).await?;
                }
                return Ok(Next::Wait);
            }
        }
        let mut freed = snapshot.as_ref().clone();
        if let Some(finalizers) = &mut freed.metadata.finalizers {
            finalizers.retain(|it| it != SNAPSHOT_AS_SOURCE && it != SNAPSHOT_BOUND);
        }
        if freed != **snapshot {
            self.context.snapshots.replace(&freed).await?;
        }
        Ok(Next::Wait)
    }

    /// Annotates a content whose snapshot is being deleted.
    async fn announce(&self, content: &VolumeSnapshotContent) -> Result<(), Error> {
        if annotation(&content.metadata, SNAPSHOT_LEAVING) == Some("yes") {
            return Ok(());
        }
        let patch = json!({ "metadata": { "annotations": { SNAPSHOT_LEAVING: "yes" } } });
        let contents = &self.context.contents;
        let written = contents.merge(&Key::of(&content.metadata), &patch).await;
        written.not_found_as_none()?;
        Ok(())
    }
}
