//! The controllers of Medley: one module and one [`Job`] for each feature.
//!
//! They reach the cluster through the API alone, so `medley run` starts them in any cluster.

pub mod cpu;
mod genuine;
pub mod governance;
pub mod health;
pub mod images;
mod install;
mod job;
pub mod monitoring;
pub mod placement;
mod published;
pub mod reasons;
pub mod release;
pub mod runtime_classes;
mod status;

use std::collections::BTreeSet;
use std::path::PathBuf;

use cluster_view::network;
use platform::AddressPolicy;
use runtime::{Error, Manager};

pub use cluster_view::placement::Registries;
pub use health::Health;
pub use install::{grant, install, install_release_owner};
pub use manifests::{ACCOUNT, Job, RELEASE_OWNER};

/// Settings of all controllers.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which controllers to start.
    pub jobs: BTreeSet<Job>,
    /// Namespace of the operator.
    pub namespace: String,
    /// Optional profiles to enable.
    pub profiles: Vec<String>,
    /// Version of Medley, recorded in statuses.
    pub version: String,
    /// The number of entries of governance's audit log to keep.
    pub audit_entries: u64,
    /// How golden images are imported.
    pub imports: images::cdi::Imports,
    /// Registry access for inspecting the images of pods and releases.
    pub registries: Registries,
    /// Addresses that imports may connect to, in this process and in importer pods: tenants name registries and web
    /// servers.
    pub addresses: AddressPolicy,
    /// Folders that a ReleasePolicy may read release files from; other paths are rejected.
    pub payload_folders: Vec<PathBuf>,
}

/// Starts the controllers of the selected jobs; they run until the manager stops.
pub async fn start(manager: &Manager, options: &Options) -> Result<(), Error> {
    if options.jobs.iter().any(|job| Job::REGISTRIES.contains(job)) {
        network::follow(manager, &options.registries).await;
    }
    // One after the other: each start waits for its caches, and jobs share many of them.
    for job in &options.jobs {
        job::start(*job, manager, options).await?;
    }
    published::publish(manager, options).await;
    Ok(())
}
