//! The simulated cluster-version operator and cluster operators.
//!
//! ```text
//! two releases, amd64 and multi --offer--> ConfigMaps, images in the registry, ClusterVersion
//! ClusterVersion, ClusterOperators --apply--> Deployments of the release, one level after the other
//! Deployments, pods --operators--> ClusterOperators, when the new pods run
//! the machine-config operator --machines--> configurations of nodes, a daemon on each of them
//! ```
//!
//! The status of the ClusterVersion is not written here: Medley's release migration verifies the
//! release and records the accepted one there. What both write is compared with a recording of the
//! genuine operator (`tests/release_standin.rs`).

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
/// Registry of release images, if the fleet runs none.
pub(crate) const USUAL_REGISTRY: &str = "quay.io";
/// The repository of releases.
pub(crate) const RELEASES: &str = "openshift-release-dev/ocp-release";
/// The repository of the components of releases.
pub(crate) const COMPONENTS: &str = "openshift-release-dev/ocp-v4.0-art-dev";

/// Label of the Deployment of a simulated cluster operator: its name.
const OPERATOR_LABEL: &str = "fleet.medley.dev/cluster-operator";
/// Environment variable of the machine-config operator with the operating system image of nodes.
const MACHINE_OS_VARIABLE: &str = "MACHINE_OS_IMAGE";

/// Starts all of them. Their CRDs have to be established.
pub(super) async fn start(manager: &Manager, client: Client, speed: f64) {
    apply::start(manager, client.clone()).await;
    operators::start(manager, client, speed).await;
}
