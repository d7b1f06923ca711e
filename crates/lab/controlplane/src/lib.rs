//! The controllers that users of a control plane take for granted.
//!
//! On a real cluster kube-controller-manager runs them; `medley up` runs these. They reach the
//! cluster through the API alone, as the genuine ones do, and know nothing of the server behind it.
//!
//! | module | what it looks after |
//! |---|---|
//! | [`workloads`] | ReplicaSets, Deployments, DaemonSets, StatefulSets, Jobs, CronJobs, disruption budgets |
//! | [`collection`] | objects whose owners are gone |
//! | [`namespace`] | what is left in namespaces that are to go |
//! | [`identity`] | the default service account and the root certificate of every namespace |
//! | [`roles`] | cluster roles made of other cluster roles |
//! | [`network`] | the endpoints behind services |
//! | [`storage`] | claims and the volumes bound to them |
//! | [`nodes`] | nodes that fell silent, and the pods on them |

pub mod collection;
pub mod identity;
pub mod namespace;
pub mod network;
pub mod nodes;
pub mod roles;
pub mod storage;
pub mod workloads;

mod discovery;

use runtime::Manager;

/// What the controllers have to be told.
#[derive(Debug, Clone)]
pub struct Options {
    /// The certificate authority of the API server, in PEM, as every namespace gets it.
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
