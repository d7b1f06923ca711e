//! Running imports, in a pod or in this process.

mod in_process;
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
use super::view::ImportView;
use in_process::InProcess;
use pods::{PodWriter, Pods};

/// Runs imports, shared by clones. Enqueues the DataVolume when its import progresses.
#[derive(Clone)]
pub(super) enum Executor {
    /// In this process.
    InProcess(InProcess),
    /// In pods.
    Pods(Box<Pods>),
}

/// One attempt of an import.
#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) volume: Arc<DataVolume>,
    /// Source of the disk.
    pub(super) origin: Origin,
    pub(super) claim: Arc<PersistentVolumeClaim>,
    /// Bytes that the claim can hold after the filesystem overhead.
    pub(super) capacity: Option<u64>,
    /// Number of the attempt.
    pub(super) attempt: u32,
    /// Required architecture of the node, if a node pulls the image.
    pub(super) node: Option<String>,
    /// What to do with a disk for another architecture.
    pub(super) sniffing: Sniffing,
}

impl Executor {
    /// Imports in this process, with disks in a folder.
    pub(super) fn in_process(
        manager: &Manager,
        registries: Registries,
        folder: &Folder,
        volumes: &Queue<Key>,
    ) -> Self {
        Self::InProcess(InProcess::new(manager, registries, folder, volumes))
    }

    /// Imports in pods of an image.
    pub(super) fn pods(
        writer: PodWriter,
        view: ImportView,
        registries: &Registries,
        image: &str,
        addresses: &AddressPolicy,
        volumes: &Queue<Key>,
    ) -> Self {
        Self::Pods(Box::new(Pods::new(
            writer, view, registries, image, addresses, volumes,
        )))
    }

    /// Waits until running imports are known.
    pub(super) async fn synced(&self) {
        match self {
            Self::InProcess(_) => {}
            Self::Pods(pods) => pods.synced().await,
        }
    }

    /// Progress of the import of a DataVolume, if it was started.
    pub(super) fn state(&self, volume: &DataVolume) -> Option<Importer> {
        match self {
            Self::InProcess(in_process) => in_process.state(volume),
            Self::Pods(pods) => pods.state(volume),
        }
    }

    pub(super) async fn start(&self, task: Task) -> Result<(), Error> {
        match self {
            Self::InProcess(in_process) => in_process.start(task),
            Self::Pods(pods) => pods.start(&task).await?,
        }
        Ok(())
    }

    /// Removes the importer of an ended import, not the disk. Returns whether anything was removed: an annotation can
    /// retain pods.
    pub(super) async fn remove(&self, volume: &DataVolume) -> Result<bool, Error> {
        match self {
            Self::InProcess(in_process) => Ok(in_process.remove(&Key::of(&volume.metadata))),
            Self::Pods(pods) => pods.remove(volume).await,
        }
    }

    /// Stops the import into a terminating claim.
    pub(super) async fn release(&self, claim: &PersistentVolumeClaim) -> Result<(), Error> {
        match self {
            Self::InProcess(_) => Ok(()),
            Self::Pods(pods) => pods.release(claim).await,
        }
    }

    /// Stops the import of a deleted DataVolume. Pods are deleted with its claim.
    pub(super) fn forget(&self, key: &Key) {
        if let Self::InProcess(in_process) = self {
            in_process.remove(key);
        }
    }
}
