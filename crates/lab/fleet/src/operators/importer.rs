//! The containerized data importer, as far as it looks after storage: a profile of every storage
//! class, and the settings that all imports keep to. Who imports is somebody else.
//!
//! ```text
//! StorageClass + VolumeSnapshotClass + what the user wants --> StorageProfile (status)
//! CDI (spec.config) --> CDIConfig (spec)
//! ```

mod config;
mod profile;
mod profiles;
#[cfg(test)]
mod tests;

use kube::Client;
use runtime::Manager;

/// Starts both; they run until the manager stops.
pub(super) async fn start(manager: &Manager, client: Client) {
    profiles::start(manager, client.clone()).await;
    config::start(manager, client).await;
}
