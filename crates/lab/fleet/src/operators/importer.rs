//! The storage part of the containerized data importer: a profile for every storage class, and the
//! configuration of all imports. Imports themselves are done by Medley's importer.
//!
//! ```text
//! StorageClass + VolumeSnapshotClass + StorageProfile (spec) --> StorageProfile (status)
//! CDI (spec.config) --> CDIConfig (spec)
//! ```

mod config;
mod profile;
mod profiles;
#[cfg(test)]
mod tests;

use kube::Client;
use runtime::Manager;

/// Starts both controllers; they run until the manager stops.
pub(super) async fn start(manager: &Manager, client: Client) {
    profiles::start(manager, client.clone()).await;
    config::start(manager, client).await;
}
