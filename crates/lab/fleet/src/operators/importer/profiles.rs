//! Maintains a `StorageProfile` for every storage class.

use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{DeleteParams, DynamicObject, PostParams, Preconditions};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use runtime::{
    Absent as _, Cache, Error, Key, Manager, Next, OptionalKindChange, OptionalKinds, Reconcile,
};
use serde_json::{Value, json};

use super::profile::{SnapshotClass, advice};
use crate::operators::kinds::importer;
use crate::operators::report::Reports;

struct Profiles {
    client: Client,
    kind: ApiResource,
    reports: Reports,
    classes: Cache<StorageClass>,
    foreign: OptionalKinds,
}

fn snapshot_classes() -> GroupVersionKind {
    GroupVersionKind::gvk("snapshot.storage.k8s.io", "v1", "VolumeSnapshotClass")
}

pub(super) async fn start(manager: &Manager, client: Client) {
    let kind = importer("StorageProfile");
    let (reports, queue) = Reports::start(manager, client.clone(), kind.clone()).await;
    // A deleted profile is created again.
    let to = queue.clone();
    reports.objects.on_change(move |change| {
        if change.new.is_none()
            && let Some(gone) = change.object()
        {
            to.add(Key::of(&gone.metadata));
        }
    });
    let classes = manager.cache::<StorageClass>();
    let to = queue.clone();
    classes.on_change(move |change| {
        if let Some(class) = change.object() {
            to.add(Key::of(&class.metadata));
        }
    });
    let foreign = manager.optional_kinds().clone();
    foreign.follow(&snapshot_classes());
    let (to, all) = (queue.clone(), classes.clone());
    foreign.on_change(move |change: &OptionalKindChange<'_>| {
        if *change.kind() == snapshot_classes() {
            for class in all.list() {
                to.add(Key::of(&class.metadata));
            }
        }
    });
    classes.synced().await;
    let profiles = Profiles {
        client,
        kind,
        reports,
        classes,
        foreign,
    };
    manager.start(profiles, &queue, 1);
}

impl Reconcile for Profiles {
    fn name(&self) -> &'static str {
        "storage-profiles"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let profile = self.reports.objects.find(key);
        match (self.classes.find(key), profile) {
            (Some(class), Some(profile)) => {
                let wanted = profile.data.get("spec").unwrap_or(&Value::Null);
                let status = advice(&class, wanted, &self.snapshots().await?);
                self.reports.report(&profile, status).await?;
            }
            (Some(_), None) => self.create(&key.name).await?,
            (None, Some(profile)) => self.delete(&profile).await?,
            (None, None) => {}
        }
        Ok(Next::Wait)
    }
}

impl Profiles {
    async fn snapshots(&self) -> Result<Vec<SnapshotClass>, Error> {
        let cache = self.foreign.open(&snapshot_classes()).await?;
        let all = cache.map(|cache| cache.list()).unwrap_or_default();
        Ok(all
            .iter()
            .filter_map(|it| SnapshotClass::read(it))
            .collect())
    }

    fn api(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &self.kind)
    }

    /// Creates the profile of a class; its status follows once the watch delivers it.
    async fn create(&self, name: &str) -> Result<(), Error> {
        let profile = DynamicObject::new(name, &self.kind).data(json!({ "spec": {} }));
        let created = self
            .api()
            .create(&PostParams::default(), &profile)
            .await
            .map_err(Error::api(format!("create StorageProfile {name}")))?;
        self.reports.objects.saw(&created).await;
        Ok(())
    }

    async fn delete(&self, profile: &DynamicObject) -> Result<(), Error> {
        let name = profile.metadata.name.as_deref().unwrap_or_default();
        let options = DeleteParams {
            preconditions: Some(Preconditions {
                uid: profile.metadata.uid.clone(),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        self.api()
            .delete(name, &options)
            .await
            .not_found_as_none()
            .map(drop)
            .map_err(Error::api(format!("delete StorageProfile {name}")))
    }
}
