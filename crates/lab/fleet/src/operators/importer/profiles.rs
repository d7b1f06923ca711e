//! Maintains a `StorageProfile` for every storage class.

use k8s_openapi::api::storage::v1::StorageClass;
use kube::Client;
use kube::api::DynamicObject;
use kube::core::GroupVersionKind;
use runtime::{Cache, Error, Key, Manager, Next, OptionalKindChange, OptionalKinds, Reconcile};
use serde_json::{Value, json};

use super::labels;
use super::profile::{SnapshotClass, advice, recognized};
use crate::operators::kinds::importer;
use crate::operators::report::{Objects, now};

struct Profiles {
    objects: Objects,
    classes: Cache<StorageClass>,
    foreign: OptionalKinds,
}

fn snapshot_classes() -> GroupVersionKind {
    GroupVersionKind::gvk("snapshot.storage.k8s.io", "v1", "VolumeSnapshotClass")
}

pub(super) async fn start(manager: &Manager, client: Client) {
    // A deleted profile is created again.
    let (objects, queue) = Objects::start(manager, &client, importer("StorageProfile")).await;
    let classes = manager.cache::<StorageClass>();
    queue.enqueue_objects(&classes);
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
        objects,
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
        let profile = self.objects.cache.find(key);
        match (self.classes.find(key), profile) {
            (Some(class), Some(profile)) => {
                let wanted = profile.data.get("spec").unwrap_or(&Value::Null);
                if let Some(mut status) = advice(&class, wanted, &self.snapshots().await?) {
                    let old = profile.data.get("status").unwrap_or(&Value::Null);
                    status["conditions"] = json!([recognized(&class, old, &now())]);
                    self.objects.report(&profile, status).await?;
                }
            }
            // Its status follows once the watch delivers it.
            (Some(_), None) => {
                let mut profile = DynamicObject::new(&key.name, &self.objects.kind);
                profile.metadata.labels = Some(labels());
                let profile = profile.data(json!({ "spec": {} }));
                self.objects.writer.create(&profile).await?;
            }
            (None, Some(profile)) => {
                self.objects.writer.delete(&profile.metadata).await?;
            }
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
}
