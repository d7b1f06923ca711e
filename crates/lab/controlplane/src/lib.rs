//! Controllers of a Kubernetes control plane.
//!
//! On a real cluster kube-controller-manager runs them; `medley up` runs these. They use only the API,
//! like the upstream ones, and do not depend on the embedded server.
//!
//! | module | responsibility |
//! |---|---|
//! | [`workloads`] | ReplicaSets, Deployments, DaemonSets, StatefulSets, Jobs, CronJobs, disruption budgets |
//! | [`collection`] | garbage collection of objects whose owners are gone |
//! | [`namespace`] | contents of terminating namespaces |
//! | [`identity`] | the default service account and the root certificate of every namespace |
//! | [`roles`] | aggregated cluster roles |
//! | [`network`] | endpoints of services |
//! | [`storage`] | binding of claims and volumes |
//! | [`nodes`] | unresponsive nodes, and the pods on them |

pub mod collection;
pub mod identity;
pub mod namespace;
pub mod network;
pub mod nodes;
pub mod roles;
pub mod storage;
pub mod workloads;

mod discovery;
mod object;
mod pod;

use runtime::Manager;

/// Configuration of the controllers.
#[derive(Debug, Clone)]
pub struct Options {
    /// The certificate authority of the API server, in PEM, published in every namespace.
    pub root_ca: String,
}

/// Starts all controllers; they run until the manager stops.
pub async fn start(manager: &Manager, options: &Options) {
    tokio::join!(
        collection::start(manager),
        identity::start(manager, &options.root_ca),
        namespace::start(manager),
        network::start(manager),
        nodes::start(manager),
        roles::start(manager),
        storage::start(manager),
        workloads::start(manager),
    );
}
