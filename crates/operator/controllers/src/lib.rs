//! The controllers of Medley: one module and one [`Job`] for each thing it does.
//!
//! They reach the cluster through the API alone, so `medley run` starts them in any cluster.

pub mod cpu;
pub mod governance;
pub mod health;
pub mod images;
mod install;
mod job;
pub mod monitoring;
pub mod placement;
pub mod release;
pub mod runtime_classes;
mod status;
pub mod words;

use std::collections::BTreeSet;
use std::path::PathBuf;

use platform::AddressPolicy;
use runtime::{Error, Manager};

pub use cluster_view::placement::Registries;
pub use health::Health;
pub use install::{grant, install, own_release};
pub use manifests::{ACCOUNT, Job, RELEASE_OWNER};

/// What the controllers have to be told.
#[derive(Debug, Clone)]
pub struct Options {
    /// What is to be done.
    pub jobs: BTreeSet<Job>,
    /// The namespace of what Medley keeps for itself.
    pub namespace: String,
    /// Profiles to switch on that are off unless somebody wants them.
    pub profiles: Vec<String>,
    /// The version of Medley, as objects tell who wrote them.
    pub version: String,
    /// Who imports golden images.
    pub imports: images::cdi::Imports,
    /// Where the images of pods and of releases are looked at.
    pub registries: Registries,
    /// Which addresses imports connect to, in this process and in importer pods: tenants name registries and web
    /// servers.
    pub addresses: AddressPolicy,
    /// Folders below which a ReleasePolicy may name one with the files of a release; no other is opened.
    pub payload_folders: Vec<PathBuf>,
}

/// Starts the controllers asked for; they run until the manager stops.
pub async fn start(manager: &Manager, options: &Options) -> Result<(), Error> {
    for job in &options.jobs {
        job::start(*job, manager, options).await?;
    }
    Ok(())
}
