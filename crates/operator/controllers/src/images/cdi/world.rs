//! What there is in the cluster, and what depends on what.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::cdi::{
    DataImportCron, DataSource, DataSourceRef, DataVolume, Named, StorageProfile, VolumeSnapshot,
    annotations,
};
use api::golden::{GROUP, GoldenImagePolicy, NAME, VERSION};
use golden_images::action::{Kind, annotation, label};
use golden_images::cdi::cron::Storage;
use golden_images::cdi::size::Overhead;
use golden_images::names::fnv1a_64;
use golden_images::policy::Policy;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::DynamicObject;
use kube::core::GroupVersionKind;
use kube::{Api, ResourceExt as _};
use runtime::{Cache, Error, ForeignChange, Index, Key, Manager};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Notify;

use crate::images::actions::gvk;

/// The kinds without which there is nothing to do.
const NEEDED: [&str; 4] = [
    "DataImportCron",
    "DataSource",
    "DataVolume",
    "StorageProfile",
];
/// The one object with settings for all imports.
const CONFIG: &str = "config";
/// Marks the storage class for virtual machines.
const VIRT_DEFAULT: &str = "storageclass.kubevirt.io/is-default-virt-class";
/// Marks the storage class for everything.
const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
/// The namespace that every cluster has, and whose uid no other has.
const EVERYWHERE: &str = "kube-system";

/// The objects; clones share them.
#[derive(Clone)]
pub(super) struct World {
    pub(super) manager: Manager,
    pub(super) crons: Cache<DataImportCron>,
    pub(super) sources: Cache<DataSource>,
    pub(super) volumes: Cache<DataVolume>,
    pub(super) claims: Cache<PersistentVolumeClaim>,
    pub(super) persistent: Cache<PersistentVolume>,
    pub(super) classes: Cache<StorageClass>,
    pub(super) profiles: Cache<StorageProfile>,
    pub(super) nodes: Cache<Node>,
    /// Claims that are being filled, by what they are copies of.
    copies: Index<PersistentVolumeClaim>,
    /// Claims beside originals, by the DataVolume that they are made for.
    interim: Index<PersistentVolumeClaim>,
    /// DataSources by what they stand for or point to.
    standing: Index<DataSource>,
    /// DataVolumes by the DataSource that they are copies of.
    copying: Index<DataVolume>,
    /// Something that differs from cluster to cluster.
    pub(super) seed: u64,
}

/// Something that a DataSource can stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Thing {
    /// A volume, or the DataVolume that becomes it.
    Volume,
    /// A snapshot.
    Snapshot,
}

impl World {
    /// Follows everything that the layer looks at; returns when it has been seen once.
    pub(super) async fn follow(manager: &Manager) -> Self {
        let claims = manager.cache::<PersistentVolumeClaim>();
        let sources = manager.cache::<DataSource>();
        let volumes = manager.cache::<DataVolume>();
        let world = Self {
            manager: manager.clone(),
            crons: manager.cache(),
            copies: claims.index(copied),
            interim: claims.index(made_for),
            persistent: manager.cache(),
            standing: sources.index(stands_for),
            copying: volumes.index(copied_source),
            claims,
            sources,
            volumes,
            classes: manager.cache(),
            profiles: manager.cache(),
            nodes: manager.cache(),
            seed: seed(manager).await,
        };
        tokio::join!(
            world.crons.synced(),
            world.sources.synced(),
            world.volumes.synced(),
            world.claims.synced(),
            world.persistent.synced(),
            world.classes.synced(),
            world.profiles.synced(),
            world.nodes.synced(),
        );
        for kind in [gvk(Kind::Snapshot), policies(), configs()] {
            manager.foreign().follow(&kind);
        }
        manager.foreign().synced().await;
        world
    }

    /// All objects of a kind that may not be installed, in a namespace.
    async fn rest<K: DeserializeOwned>(
        &self,
        kind: &GroupVersionKind,
        namespace: &str,
    ) -> Result<Vec<K>, Error> {
        let Some(cache) = self.manager.foreign().open(kind).await? else {
            return Ok(Vec::new());
        };
        let objects = cache.in_namespace(namespace);
        // What cannot be read is as good as not there.
        Ok(objects.iter().filter_map(|it| read(it)).collect())
    }

    /// The snapshots of a namespace.
    pub(super) async fn snapshots(&self, namespace: &str) -> Result<Vec<VolumeSnapshot>, Error> {
        self.rest(&gvk(Kind::Snapshot), namespace).await
    }

    /// A snapshot.
    pub(super) async fn snapshot(&self, key: &Key) -> Result<Option<VolumeSnapshot>, Error> {
        let kind = gvk(Kind::Snapshot);
        let Some(cache) = self.manager.foreign().open(&kind).await? else {
            return Ok(None);
        };
        Ok(cache.find(key).and_then(|it| read(&it)))
    }

    /// How images are kept.
    pub(super) async fn policy(&self) -> Result<Policy, Error> {
        let all: Vec<GoldenImagePolicy> = self.rest(&policies(), "").await?;
        let one = all.iter().find(|it| it.name_any() == NAME);
        Ok(one.map_or_else(Policy::default, |it| Policy::read(&it.spec).0))
    }

    async fn config(&self) -> Result<Option<Arc<DynamicObject>>, Error> {
        let cache = self.manager.foreign().open(&configs()).await?;
        Ok(cache.and_then(|cache| cache.get("", CONFIG)))
    }

    /// Registries that need not prove who they are.
    pub(super) async fn insecure(&self) -> Result<Vec<String>, Error> {
        let config = self.config().await?;
        let listed = config.as_ref().and_then(|it| {
            let all = it.data.pointer("/spec/insecureRegistries")?;
            all.as_array().cloned()
        });
        let listed = listed.unwrap_or_default().into_iter();
        Ok(listed
            .filter_map(|it| it.as_str().map(str::to_owned))
            .collect())
    }

    /// What a file system takes on a storage class.
    pub(super) async fn overhead(&self, class: Option<&str>) -> Result<Overhead, Error> {
        let config = self.config().await?;
        let said = config
            .as_ref()
            .and_then(|it| it.data.pointer("/status/filesystemOverhead"));
        let own = |all: &Value| all.get("storageClass")?.get(class?).cloned();
        let text = said.and_then(|all| own(all).or_else(|| all.get("global").cloned()));
        let text = text.as_ref().and_then(Value::as_str);
        Ok(text.and_then(Overhead::parse).unwrap_or(Overhead::DEFAULT))
    }

    /// The architectures of nodes that take pods.
    pub(super) fn architectures(&self) -> BTreeSet<String> {
        let nodes = self.nodes.list();
        let mut all: BTreeSet<&str> = BTreeSet::new();
        all.extend(nodes.iter().filter_map(|node| architecture(node)));
        all.into_iter().map(str::to_owned).collect()
    }

    /// The storage class that volumes get which name none. Of several, the newest.
    pub(super) fn default_class(&self) -> Option<String> {
        let classes = self.classes.list();
        let marked = |mark: &str| {
            let marked = classes
                .iter()
                .filter(|it| annotation(&it.metadata, mark) == Some("true"));
            marked
                .max_by_key(|it| {
                    let made = it.metadata.creation_timestamp.as_ref();
                    (made.map(|it| it.0), std::cmp::Reverse(it.name_any()))
                })
                .map(|it| it.name_any())
        };
        marked(VIRT_DEFAULT).or_else(|| marked(DEFAULT))
    }

    /// The storage that the imports of a DataImportCron go to.
    pub(super) fn storage(&self, cron: &DataImportCron) -> Storage {
        let spec = &cron.spec.template.spec;
        let asked = spec.storage.as_ref().or(spec.pvc.as_ref());
        let class = asked.and_then(|it| it.storage_class_name.clone());
        let class = class.or_else(|| self.default_class());
        let profile = class.as_ref().and_then(|it| self.profiles.get("", it));
        let status = profile.as_ref().and_then(|it| it.status.as_ref());
        let note = |name: &str| {
            let profile = profile.as_ref()?;
            annotation(&profile.metadata, name).map(str::to_owned)
        };
        let format = status.and_then(|it| it.data_import_cron_source_format.as_deref());
        Storage {
            snapshots: format == Some("snapshot"),
            snapshot_class: note(annotations::SNAPSHOT_CLASS)
                .or_else(|| status.and_then(|it| it.snapshot_class.clone())),
            read_write_once: note(annotations::READ_WRITE_ONCE).as_deref() == Some("true"),
            class,
        }
    }

    /// Whether a volume or snapshot is being copied.
    pub(super) fn is_busy(&self, namespace: &str, name: &str) -> bool {
        !self.copies.find(&term("", namespace, name)).is_empty()
    }

    /// Claims that were made beside originals for a DataVolume.
    pub(super) fn interim_of(&self, key: &Key) -> Vec<Arc<PersistentVolumeClaim>> {
        self.interim.find(&term("", &key.namespace, &key.name))
    }

    /// DataSources that stand for a volume or a snapshot.
    pub(super) fn standing_for(&self, thing: Thing, key: &Key) -> Vec<Arc<DataSource>> {
        let prefix = match thing {
            Thing::Volume => PVC,
            Thing::Snapshot => SNAPSHOT,
        };
        self.standing.find(&term(prefix, &key.namespace, &key.name))
    }

    /// DataSources that point to a DataSource.
    pub(super) fn pointing_to(&self, key: &Key) -> Vec<Arc<DataSource>> {
        self.standing
            .find(&term(POINTER, &key.namespace, &key.name))
    }

    /// DataVolumes that are copies of what a DataSource stands for.
    pub(super) fn copies_of(&self, key: &Key) -> Vec<Arc<DataVolume>> {
        self.copying.find(&term("", &key.namespace, &key.name))
    }
}

/// Whether the kinds of CDI are installed.
pub(super) async fn is_installed(manager: &Manager) -> bool {
    let foreign = manager.foreign();
    foreign.synced().await;
    let mut needed = NEEDED.iter();
    needed.all(|kind| foreign.kind(api::cdi::GROUP, kind).is_some())
}

/// Waits until the kinds of CDI are installed.
pub(super) async fn until_installed(manager: &Manager) {
    let news = Arc::new(Notify::new());
    let told = Arc::clone(&news);
    for kind in NEEDED {
        let kind = GroupVersionKind::gvk(api::cdi::GROUP, api::cdi::VERSION, kind);
        manager.foreign().follow(&kind);
    }
    manager
        .foreign()
        .on_change(move |_: &ForeignChange<'_>| told.notify_one());
    while !is_installed(manager).await {
        news.notified().await;
    }
}

/// The architecture of a node that takes pods.
pub(super) fn architecture(node: &Node) -> Option<&str> {
    let spec = node.spec.as_ref();
    if spec.is_some_and(|spec| spec.unschedulable == Some(true)) {
        return None;
    }
    let said = node.status.as_ref().and_then(|it| it.node_info.as_ref());
    let said = said.map(|it| it.architecture.as_str());
    said.filter(|it| !it.is_empty())
        .or_else(|| label(&node.metadata, "kubernetes.io/arch"))
}

fn read<K: DeserializeOwned>(object: &DynamicObject) -> Option<K> {
    serde_json::from_value(serde_json::to_value(object).ok()?).ok()
}

pub(super) fn policies() -> GroupVersionKind {
    GroupVersionKind::gvk(GROUP, VERSION, "GoldenImagePolicy")
}

pub(super) fn configs() -> GroupVersionKind {
    GroupVersionKind::gvk(api::cdi::GROUP, api::cdi::VERSION, "CDIConfig")
}

const PVC: &str = "pvc ";
const SNAPSHOT: &str = "snapshot ";
const POINTER: &str = "pointer ";

/// What objects are found by.
fn term(prefix: &str, namespace: &str, name: &str) -> String {
    format!("{prefix}{namespace}/{name}")
}

/// What a claim that is not bound yet is a copy of.
fn copied(claim: &PersistentVolumeClaim) -> Vec<String> {
    let status = claim.status.as_ref();
    let Some(spec) = &claim.spec else {
        return Vec::new();
    };
    if status.and_then(|it| it.phase.as_deref()) == Some("Bound") {
        return Vec::new();
    }
    let home = claim.metadata.namespace.as_deref().unwrap_or_default();
    let by_reference = spec.data_source_ref.as_ref().map(|from| {
        let namespace = from.namespace.as_deref().filter(|it| !it.is_empty());
        term("", namespace.unwrap_or(home), &from.name)
    });
    let by_name = spec.data_source.as_ref();
    let by_name = by_name.map(|from| term("", home, &from.name));
    by_reference.or(by_name).into_iter().collect()
}

/// The DataVolume that a claim beside an original is made for.
fn made_for(claim: &PersistentVolumeClaim) -> Vec<String> {
    let of = golden_images::cdi::copy::made_for(&claim.metadata);
    of.iter()
        .map(|(of, _)| term("", &of.namespace, &of.name))
        .collect()
}

fn stands_for(source: &DataSource) -> Vec<String> {
    let home = source.metadata.namespace.as_deref().unwrap_or_default();
    let at = |of: &Named| {
        let given = Some(of.namespace.as_str()).filter(|it| !it.is_empty());
        given.unwrap_or(home).to_owned()
    };
    let found = source.spec.source.which().map(|found| match found {
        DataSourceRef::Pvc(of) => term(PVC, &at(of), &of.name),
        DataSourceRef::Snapshot(of) => term(SNAPSHOT, &at(of), &of.name),
        DataSourceRef::DataSource(of) => term(POINTER, home, &of.name),
    });
    found.into_iter().collect()
}

fn copied_source(volume: &DataVolume) -> Vec<String> {
    let of = golden_images::cdi::copy::source_of(volume);
    of.iter()
        .map(|it| term("", &it.namespace, &it.name))
        .collect()
}

/// A number that differs from cluster to cluster: without one, polls of all clusters fall together.
async fn seed(manager: &Manager) -> u64 {
    let namespaces: Api<Namespace> = Api::all(manager.client());
    let found = namespaces.get_opt(EVERYWHERE).await.ok().flatten();
    let uid = found.and_then(|it| it.metadata.uid).unwrap_or_default();
    fnv1a_64(uid.as_bytes())
}
