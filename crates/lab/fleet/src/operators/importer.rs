//! The storage part of the containerized data importer: a profile for every storage class, and the
//! configuration of all imports. Imports themselves are done by Medley's importer.
//!
//! Compared with CDI v1.65.0: `recordings/cdi` has what its controller wrote, and `tests/recordings.rs` holds this to it. The
//! simulated driver takes the place of one that CDI knows. The status of the `CDI` object is not compared: its operator is
//! not among the peers.
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

use std::collections::BTreeMap;

use kube::Client;
use runtime::Manager;

/// Labels of all objects of CDI's controller.
pub(super) fn labels() -> BTreeMap<String, String> {
    let labels = [
        ("app", "containerized-data-importer"),
        ("app.kubernetes.io/component", "storage"),
        ("app.kubernetes.io/managed-by", "cdi-controller"),
        ("cdi.kubevirt.io", ""),
    ];
    labels
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

/// Starts both controllers; they run until the manager stops.
pub(super) async fn start(manager: &Manager, client: Client) {
    profiles::start(manager, client.clone()).await;
    config::start(manager, client).await;
}
