//! Simulated storage: a provisioner as a CSI driver's helpers are one, and snapshots.
//!
//! ```text
//! claims that ask for it   --> provisioner --> volumes (pvc-<uid>), also copies and restored ones
//! volumes nobody claims    --> reclaimer   --> gone
//! claims that want more    --> resizer     --> larger volumes
//! VolumeSnapshots          --> snapshots   --> VolumeSnapshotContents, ready after a while
//! ```
//!
//! No byte is stored. What can be seen of a driver is there: names, sizes, topology, times, errors,
//! events and finalizers. A volume is named after the uid of its claim, so that there are never two
//! for one.

mod install;
mod names;
mod provision;
mod provisioner;
mod reclaimer;
mod resizer;
pub mod snapshots;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Client;
use runtime::{Cache, Error, Index, Manager};

use crate::pace::Pace;
pub use names::DRIVER;
pub(crate) use names::{DEFAULT_SNAPSHOT_CLASS, TOPOLOGY};
use snapshots::{VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent};

/// How storage is simulated.
#[derive(Clone)]
pub struct Options {
    /// Who writes.
    pub client: Client,
    /// How many times as fast as in reality things happen.
    pub speed: f64,
    /// Whether to offer classes that use the driver: `fast`, which is the default, and `local`.
    pub classes: bool,
}

/// What the controllers look at.
#[derive(Clone)]
struct Caches {
    claims: Cache<PersistentVolumeClaim>,
    /// Claims by what they are to be copied from.
    claims_by_source: Index<PersistentVolumeClaim>,
    volumes: Cache<PersistentVolume>,
    classes: Cache<StorageClass>,
    nodes: Cache<Node>,
    snapshots: Cache<VolumeSnapshot>,
    contents: Cache<VolumeSnapshotContent>,
    snapshot_classes: Cache<VolumeSnapshotClass>,
}

/// What the controllers work with.
#[derive(Clone)]
struct Context {
    client: Client,
    caches: Caches,
    pace: Pace,
}

/// Starts the driver and the snapshot controller; they run until the manager stops. Definitions of
/// snapshots and, if asked for, classes are made unless they are there.
pub async fn start(manager: &Manager, options: Options) -> Result<(), Error> {
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
    let context = Context {
        client: options.client,
        caches,
        pace: Pace::new(options.speed),
    };
    provisioner::start(manager, &context);
    reclaimer::start(manager, &context);
    resizer::start(manager, &context);
    snapshots::start(manager, &context);
    Ok(())
}
