//! The cluster-version operator and the cluster operators, simulated.
//!
//! ```text
//! two releases, amd64 and multi --offer--> ConfigMaps, images in the registry, ClusterVersion
//! ClusterVersion, ClusterOperators --apply--> Deployments of the release, one level after the other
//! Deployments, pods --operators--> ClusterOperators, when the new pods truly run
//! the machine-config operator --machines--> configurations of machines, a daemon on each of them
//! ```
//!
//! Nobody here writes the status of the ClusterVersion: whoever judges the release does, and says there
//! which one is wanted.

mod apply;
mod catalog;
mod machines;
mod manifests;
mod offer;
mod operators;

use kube::Client;
use runtime::Manager;

pub(crate) use offer::Offer;

/// The version of both releases.
pub(crate) const VERSION: &str = "4.18.0";
/// Where images of releases are, if there is no registry here.
pub(crate) const USUAL_REGISTRY: &str = "quay.io";
/// The repository of releases.
pub(crate) const RELEASES: &str = "openshift-release-dev/ocp-release";
/// The repository of what releases are made of.
pub(crate) const COMPONENTS: &str = "openshift-release-dev/ocp-v4.0-art-dev";

/// On the Deployment of a cluster operator that is simulated: its name.
const OPERATOR_LABEL: &str = "fleet.medley.dev/cluster-operator";
/// The variable that tells the machine-config operator which operating system machines are to run.
const MACHINE_OS_VARIABLE: &str = "MACHINE_OS_IMAGE";

/// Starts all of them. Their kinds have to be served.
pub(super) async fn start(manager: &Manager, client: Client, speed: f64) {
    apply::start(manager, client.clone()).await;
    operators::start(manager, client, speed).await;
}
