//! Simulated storage: a provisioner like the sidecars of a CSI driver, and snapshots.
//!
//! ```text
//! claims of its classes    --> provisioner --> volumes (pvc-<uid>), also clones and restored ones
//! released volumes         --> reclaimer   --> deleted
//! claims that grow         --> resizer     --> larger volumes
//! VolumeSnapshots          --> snapshots   --> VolumeSnapshotContents, ready after a while
//! ```
//!
//! No data is stored. The observable behaviour of a driver is simulated: names, sizes, topology,
//! times, errors, events and finalizers. A volume is named after the UID of its claim, so that a
//! claim never gets two.

mod install;
mod names;
mod provision;
mod provisioner;
mod reclaimer;
mod resizer;
pub mod snapshots;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Client;
use runtime::{Cache, Error, Index, Manager, Writer};

use crate::pace::Pace;
pub use names::DRIVER;
pub(crate) use names::{DEFAULT_SNAPSHOT_CLASS, TOPOLOGY};
use snapshots::{VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent};

/// Configuration of the simulated storage.
#[derive(Clone)]
pub struct Options {
    /// Client of the controllers.
    pub client: Client,
    /// Speed of simulated time, as a multiple of real time.
    pub speed: f64,
    /// Whether to create storage classes of the driver: `fast`, which is the default, and `local`.
    pub classes: bool,
}

/// Caches shared by the controllers.
#[derive(Clone)]
struct Caches {
    claims: Cache<PersistentVolumeClaim>,
    /// Claims by their data source.
    claims_by_source: Index<PersistentVolumeClaim>,
    volumes: Cache<PersistentVolume>,
    classes: Cache<StorageClass>,
    nodes: Cache<Node>,
    snapshots: Cache<VolumeSnapshot>,
    contents: Cache<VolumeSnapshotContent>,
    snapshot_classes: Cache<VolumeSnapshotClass>,
}

impl Caches {
    /// The volume that a claim is bound to.
    fn volume_of(&self, claim: &PersistentVolumeClaim) -> Option<Arc<PersistentVolume>> {
        let name = claim.spec.as_ref()?.volume_name.as_deref()?;
        self.volumes.get("", name)
    }
}

/// State shared by the controllers. Each writer returns once the cache shows the write.
#[derive(Clone)]
struct Context {
    caches: Caches,
    claims: Writer<PersistentVolumeClaim>,
    volumes: Writer<PersistentVolume>,
    snapshots: Writer<VolumeSnapshot>,
    contents: Writer<VolumeSnapshotContent>,
    pace: Pace,
}

/// Starts the driver and the snapshot controller; they run until the manager stops. Creates the
/// CRDs of snapshots and, if requested, the classes, unless they exist.
pub async fn start(manager: &Manager, options: Options) -> Result<(), Error> {
    // Before the caches, so that none of them begins with a kind that is not served.
    install::definitions(&options.client).await?;
    if options.classes {
        install::classes(&options.client).await?;
    }
    let claims = manager.cache::<PersistentVolumeClaim>();
    let caches = Caches {
        claims_by_source: claims.index(|claim| {
            let source = provision::source_key(claim);
            source.into_iter().collect()
        }),
        claims,
        volumes: manager.cache(),
        classes: manager.cache(),
        nodes: manager.cache(),
        snapshots: manager.cache(),
        contents: manager.cache(),
        snapshot_classes: manager.cache(),
    };
    tokio::join!(
        caches.claims.synced(),
        caches.volumes.synced(),
        caches.classes.synced(),
        caches.nodes.synced(),
        caches.snapshots.synced(),
        caches.contents.synced(),
        caches.snapshot_classes.synced(),
    );
    let client = || options.client.clone();
    let context = Context {
        claims: Writer::namespaced(client()).shown_by(&caches.claims),
        volumes: Writer::cluster(client()).shown_by(&caches.volumes),
        snapshots: Writer::namespaced(client()).shown_by(&caches.snapshots),
        contents: Writer::cluster(client()).shown_by(&caches.contents),
        caches,
        pace: Pace::new(options.speed),
    };
    provisioner::start(manager, &context);
    reclaimer::start(manager, &context);
    resizer::start(manager, &context);
    snapshots::start(manager, &context);
    Ok(())
}
