//! View of the cluster: caches of the objects that imports depend on, and indexes of their references.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::cdi::{
    DataImportCron, DataSource, DataSourceRef, DataVolume, StorageProfile, VolumeSnapshot,
    annotations,
};
use api::golden::GoldenImagePolicy;
use api::node;
use cluster_view::policies;
use golden_images::action::{Kind, annotation};
use golden_images::cdi::cron::Storage;
use golden_images::cdi::proxy::ImportProxy;
use golden_images::cdi::size::Overhead;
use golden_images::names::fnv1a_64;
use golden_images::policy::{EffectivePolicy, Policy};
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::DynamicObject;
use kube::core::GroupVersionKind;
use kube::{Api, ResourceExt as _};
use runtime::{Cache, Error, Index, Key, Manager, OptionalKindChange, kind_of};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Notify;

use crate::images::actions::gvk;

/// CDI kinds that have to be installed.
const REQUIRED_KINDS: [&str; 4] = [
    "DataImportCron",
    "DataSource",
    "DataVolume",
    "StorageProfile",
];
/// Name of the CDIConfig, a singleton.
const CONFIG: &str = "config";
/// Annotation of the default storage class for virtual machines; it takes precedence.
const VIRT_DEFAULT: &str = "storageclass.kubevirt.io/is-default-virt-class";
/// Annotation of the default storage class.
const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
/// A namespace that every cluster has; its uid identifies the cluster.
const CLUSTER_ID_NAMESPACE: &str = "kube-system";

/// Caches and indexes, shared by clones.
#[derive(Clone)]
pub(super) struct ImportView {
    pub(super) manager: Manager,
    pub(super) crons: Cache<DataImportCron>,
    pub(super) sources: Cache<DataSource>,
    pub(super) volumes: Cache<DataVolume>,
    pub(super) claims: Cache<PersistentVolumeClaim>,
    pub(super) persistent: Cache<PersistentVolume>,
    pub(super) classes: Cache<StorageClass>,
    pub(super) profiles: Cache<StorageProfile>,
    pub(super) nodes: Cache<Node>,
    /// Claims that are being filled, by the volume or snapshot they clone.
    copies: Index<PersistentVolumeClaim>,
    /// Interim claims next to originals, by their DataVolume.
    interim: Index<PersistentVolumeClaim>,
    /// DataSources by the volume, snapshot or DataSource they name.
    standing: Index<DataSource>,
    /// DataVolumes by the DataSource they clone.
    copying: Index<DataVolume>,
    /// Differs between clusters; spreads their polls over time.
    pub(super) seed: u64,
}

/// What a DataSource can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum SourceKind {
    /// A claim, or the DataVolume that creates it.
    Volume,
    Snapshot,
}

impl ImportView {
    /// Starts the caches; returns once they have synced.
    pub(super) async fn follow(manager: &Manager) -> Self {
        let claims = manager.cache::<PersistentVolumeClaim>();
        let sources = manager.cache::<DataSource>();
        let volumes = manager.cache::<DataVolume>();
        let view = Self {
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
            view.crons.synced(),
            view.sources.synced(),
            view.volumes.synced(),
            view.claims.synced(),
            view.persistent.synced(),
            view.classes.synced(),
            view.profiles.synced(),
            view.nodes.synced(),
        );
        for kind in [
            gvk(Kind::Snapshot),
            kind_of::<GoldenImagePolicy>(),
            configs(),
        ] {
            manager.optional_kinds().follow(&kind);
        }
        manager.optional_kinds().synced().await;
        view
    }

    /// The snapshots of a namespace.
    pub(super) async fn snapshots(&self, namespace: &str) -> Result<Vec<VolumeSnapshot>, Error> {
        let cache = self
            .manager
            .optional_kinds()
            .open(&gvk(Kind::Snapshot))
            .await?;
        let objects = cache.map(|cache| cache.in_namespace(namespace));
        // One that cannot be decoded must not keep the others from being seen.
        Ok(objects.iter().flatten().filter_map(|it| read(it)).collect())
    }

    pub(super) async fn snapshot(&self, key: &Key) -> Result<Option<VolumeSnapshot>, Error> {
        let kind = gvk(Kind::Snapshot);
        let Some(cache) = self.manager.optional_kinds().open(&kind).await? else {
            return Ok(None);
        };
        Ok(cache.find(key).and_then(|it| read(&it)))
    }

    /// The rules of the GoldenImagePolicy, or their defaults.
    pub(super) async fn policy(&self) -> Result<Policy, Error> {
        let found = policies::cached(self.manager.optional_kinds()).await?;
        Ok(EffectivePolicy::new(found).policy)
    }

    async fn config(&self) -> Result<Option<Arc<DynamicObject>>, Error> {
        let cache = self.manager.optional_kinds().open(&configs()).await?;
        Ok(cache.and_then(|cache| cache.get("", CONFIG)))
    }

    /// Registries that may be accessed without TLS verification: `spec.insecureRegistries` of the CDIConfig.
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

    /// The proxy of imports, if the CDIConfig replaces that of the cluster.
    pub(super) async fn import_proxy(&self) -> Result<Option<ImportProxy>, Error> {
        let config = self.config().await?;
        Ok(config.and_then(|it| ImportProxy::of(&it.data)))
    }

    /// Filesystem overhead of a storage class.
    pub(super) async fn overhead(&self, class: Option<&str>) -> Result<Overhead, Error> {
        let config = self.config().await?;
        let overheads = config
            .as_ref()
            .and_then(|it| it.data.pointer("/status/filesystemOverhead"));
        let own = |all: &Value| all.get("storageClass")?.get(class?).cloned();
        let text = overheads.and_then(|all| own(all).or_else(|| all.get("global").cloned()));
        let text = text.as_ref().and_then(Value::as_str);
        Ok(text.and_then(Overhead::parse).unwrap_or(Overhead::DEFAULT))
    }

    /// Architectures of nodes that accept importer pods.
    pub(super) fn architectures(&self) -> BTreeSet<String> {
        let nodes = self.nodes.list();
        let all: BTreeSet<&str> = nodes
            .iter()
            .filter_map(|it| open_architecture(it))
            .collect();
        all.into_iter().map(str::to_owned).collect()
    }

    /// The default storage class; the newest of several, as the admission plugin DefaultStorageClass chooses.
    pub(super) fn default_class(&self) -> Option<String> {
        let classes = self.classes.list();
        let marked = |mark: &str| {
            let marked = classes
                .iter()
                .filter(|it| annotation(&it.metadata, mark) == Some("true"));
            marked
                .max_by_key(|it| {
                    let made = it.metadata.creation_timestamp.as_ref();
                    // Of equal times the first by name: `GetDefaultClass` in
                    // `pkg/volume/util/storageclass.go` of Kubernetes.
                    (made.map(|it| it.0), std::cmp::Reverse(it.name_any()))
                })
                .map(|it| it.name_any())
        };
        marked(VIRT_DEFAULT).or_else(|| marked(DEFAULT))
    }

    /// Storage of the imports of a DataImportCron.
    pub(super) fn storage(&self, cron: &DataImportCron) -> Storage {
        let spec = &cron.spec.template.spec;
        let requested = spec.storage.as_ref().or(spec.pvc.as_ref());
        let class = requested.and_then(|it| it.storage_class_name.clone());
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

    /// Whether a volume or snapshot is being cloned.
    pub(super) fn is_busy(&self, namespace: &str, name: &str) -> bool {
        !self.copies.find(&term("", namespace, name)).is_empty()
    }

    /// Interim claims of a DataVolume.
    pub(super) fn interim_of(&self, key: &Key) -> Vec<Arc<PersistentVolumeClaim>> {
        self.interim.find(&term("", &key.namespace, &key.name))
    }

    /// DataSources that name a volume or a snapshot.
    pub(super) fn standing_for(&self, kind: SourceKind, key: &Key) -> Vec<Arc<DataSource>> {
        let prefix = match kind {
            SourceKind::Volume => PVC,
            SourceKind::Snapshot => SNAPSHOT,
        };
        self.standing.find(&term(prefix, &key.namespace, &key.name))
    }

    /// DataSources that point to a DataSource.
    pub(super) fn pointing_to(&self, key: &Key) -> Vec<Arc<DataSource>> {
        self.standing
            .find(&term(POINTER, &key.namespace, &key.name))
    }

    /// DataVolumes that clone through a DataSource.
    pub(super) fn copies_of(&self, key: &Key) -> Vec<Arc<DataVolume>> {
        self.copying.find(&term("", &key.namespace, &key.name))
    }
}

/// Whether CDI is installed.
pub(super) async fn is_installed(manager: &Manager) -> bool {
    let foreign = manager.optional_kinds();
    foreign.synced().await;
    let mut needed = REQUIRED_KINDS.iter();
    // All of them: with a part of CDI installed, the caches of the others would never sync.
    needed.all(|kind| foreign.kind(api::cdi::GROUP, kind).is_some())
}

/// Waits until CDI is installed.
pub(super) async fn until_installed(manager: &Manager) {
    let changed = Arc::new(Notify::new());
    let notify = Arc::clone(&changed);
    for kind in REQUIRED_KINDS {
        let kind = GroupVersionKind::gvk(api::cdi::GROUP, api::cdi::VERSION, kind);
        manager.optional_kinds().follow(&kind);
    }
    manager
        .optional_kinds()
        .on_change(move |_: &OptionalKindChange<'_>| notify.notify_one());
    while !is_installed(manager).await {
        changed.notified().await;
    }
}

/// The architecture of a node, unless it is cordoned: an importer pod would wait for the end of its maintenance.
pub(super) fn open_architecture(node: &Node) -> Option<&str> {
    node::architecture(node).filter(|_| !node::is_cordoned(node))
}

fn read<K: DeserializeOwned>(object: &DynamicObject) -> Option<K> {
    serde_json::from_value(serde_json::to_value(object).ok()?).ok()
}

pub(super) fn configs() -> GroupVersionKind {
    GroupVersionKind::gvk(api::cdi::GROUP, api::cdi::VERSION, "CDIConfig")
}

const PVC: &str = "pvc ";
const SNAPSHOT: &str = "snapshot ";
const POINTER: &str = "pointer ";

/// Key of the indexes.
fn term(prefix: &str, namespace: &str, name: &str) -> String {
    format!("{prefix}{namespace}/{name}")
}

/// Index key: the source of a claim that is not bound yet.
fn copied(claim: &PersistentVolumeClaim) -> Vec<String> {
    let status = claim.status.as_ref();
    let Some(spec) = &claim.spec else {
        return Vec::new();
    };
    // Binding ends the clone: a provisioner creates the volume only together with its content.
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
    // `dataSourceRef` first: the API server fills it from `dataSource`, and it alone can name another namespace.
    by_reference.or(by_name).into_iter().collect()
}

/// Index key: the DataVolume of an interim claim.
fn made_for(claim: &PersistentVolumeClaim) -> Vec<String> {
    let of = golden_images::cdi::clone::made_for(&claim.metadata);
    of.iter()
        .map(|(of, _)| term("", &of.namespace, &of.name))
        .collect()
}

fn stands_for(source: &DataSource) -> Vec<String> {
    let home = source.metadata.namespace.as_deref().unwrap_or_default();
    let found = source.spec.source.which().map(|found| match found {
        DataSourceRef::Pvc(of) => term(PVC, &of.or_in(home).namespace, &of.name),
        DataSourceRef::Snapshot(of) => term(SNAPSHOT, &of.or_in(home).namespace, &of.name),
        DataSourceRef::DataSource(of) => term(POINTER, home, &of.name),
    });
    found.into_iter().collect()
}

fn copied_source(volume: &DataVolume) -> Vec<String> {
    let of = golden_images::cdi::clone::source_of(volume);
    of.iter()
        .map(|it| term("", &it.namespace, &it.name))
        .collect()
}

/// A number that differs between clusters: otherwise all clusters would poll a public registry at the same time.
async fn seed(manager: &Manager) -> u64 {
    let namespaces: Api<Namespace> = Api::all(manager.client());
    let found = namespaces
        .get_opt(CLUSTER_ID_NAMESPACE)
        .await
        .ok()
        .flatten();
    // Without permission to read the namespace the seed is a constant: polls then coincide with those of other
    // clusters, which is no reason not to start.
    let uid = found.and_then(|it| it.metadata.uid).unwrap_or_default();
    fnv1a_64(uid.as_bytes())
}
