//! Who carries out an import: a pod, or this process.

mod here;
pub(super) mod pods;

use std::sync::Arc;

use api::cdi::DataVolume;
use api::golden::Sniffing;
use golden_images::cdi::data_volume::Importer;
use golden_images::cdi::origin::Origin;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use platform::AddressPolicy;
use runtime::{Error, Key, Manager, Queue};

use super::Folder;
use super::registries::Registries;
use super::world::World;
use here::Here;
use pods::Pods;

/// Carries out imports; clones are the same one. DataVolumes whose import got on are put into a queue.
#[derive(Clone)]
pub(super) enum Executor {
    /// This process.
    Here(Here),
    /// Pods.
    Pods(Box<Pods>),
}

/// An import to be carried out.
#[derive(Debug, Clone)]
pub(super) struct Task {
    /// The DataVolume.
    pub(super) volume: Arc<DataVolume>,
    /// Where its disk comes from.
    pub(super) origin: Origin,
    /// Its claim.
    pub(super) claim: Arc<PersistentVolumeClaim>,
    /// How many bytes of disk that has room for.
    pub(super) room: Option<u64>,
    /// Which try it is.
    pub(super) attempt: u32,
    /// The architecture that the node must have, if a node pulls.
    pub(super) node: Option<String>,
    /// What is done with a disk for another architecture.
    pub(super) sniffing: Sniffing,
}

impl Executor {
    /// This process, with disks in a folder.
    pub(super) fn here(
        manager: &Manager,
        registries: Registries,
        folder: &Folder,
        volumes: &Queue<Key>,
    ) -> Self {
        Self::Here(Here::new(manager, registries, folder, volumes))
    }

    /// Pods of an image.
    pub(super) fn pods(
        manager: &Manager,
        world: World,
        image: &str,
        addresses: &AddressPolicy,
        volumes: &Queue<Key>,
    ) -> Self {
        Self::Pods(Box::new(Pods::new(
            manager, world, image, addresses, volumes,
        )))
    }

    /// Waits until it is known which imports there are.
    pub(super) async fn synced(&self) {
        match self {
            Self::Here(_) => {}
            Self::Pods(pods) => pods.synced().await,
        }
    }

    /// How far the import of a DataVolume is, if it was started.
    pub(super) fn look(&self, volume: &DataVolume) -> Option<Importer> {
        match self {
            Self::Here(here) => here.look(volume),
            Self::Pods(pods) => pods.look(volume),
        }
    }

    /// Starts an import.
    pub(super) async fn start(&self, task: Task) -> Result<(), Error> {
        match self {
            Self::Here(here) => here.start(task),
            Self::Pods(pods) => pods.start(&task).await?,
        }
        Ok(())
    }

    /// Removes what is left of an import that has ended; the disk stays. Says whether anything was
    /// removed: some pods are to be kept.
    pub(super) async fn remove(&self, volume: &DataVolume) -> Result<bool, Error> {
        match self {
            Self::Here(here) => Ok(here.remove(&Key::of(&volume.metadata))),
            Self::Pods(pods) => pods.remove(volume).await,
        }
    }

    /// Ends the import of a DataVolume that is gone. Pods go with it by themselves.
    pub(super) fn forget(&self, key: &Key) {
        if let Self::Here(here) = self {
            here.remove(key);
        }
    }
}
