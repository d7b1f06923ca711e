//! Clusters and other real parts for tests.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::Api;
//!
//! let cluster = testkit::TestCluster::start().await?;
//! let namespace = cluster.namespace("example").await?;
//! let api: Api<ConfigMap> = Api::namespaced(cluster.client(), &namespace);
//! assert_eq!(api.list(&Default::default()).await?.items.len(), 0);
//! # Ok(())
//! # }
//! ```
//!
//! The cluster is the embedded server in the process of the test, without sockets. When
//! `KUBEBUILDER_ASSETS` names a folder with `etcd` and `kube-apiserver`, it is those two instead:
//! the same suite then says whether it asks for the genuine behaviour.

mod cluster;
mod embedded;
mod genuine;
mod lines;
mod process;
mod remote;
mod served;
mod wait;
mod webhook;

pub use cluster::TestCluster;
pub use genuine::Fsync;
pub use lines::Lines;
pub use process::{Process, free_port};
pub use served::ServedCluster;
pub use wait::wait_until;
pub use webhook::{Question, Reply, WebhookServer};

/// Chooses the cryptography of TLS for the whole process; the first choice counts.
pub fn install_crypto() {
    // An error means that it has been chosen before, and there is only one to choose.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}
