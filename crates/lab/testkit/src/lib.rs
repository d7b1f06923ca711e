//! API servers and other real components for tests.
//!
//! ```no_run
//! # #[cfg(feature = "cluster")]
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
//! The cluster is the embedded server in the test's process, without sockets. When
//! `KUBEBUILDER_ASSETS` names a folder with `etcd` and `kube-apiserver`, these run instead: the
//! same suite then verifies that its expectations match upstream.

#[cfg(feature = "cluster")]
mod certificate;
#[cfg(feature = "cluster")]
mod cluster;
mod command_output;
mod container_disk;
#[cfg(feature = "cri")]
mod cri;
#[cfg(feature = "cluster")]
mod descheduler;
#[cfg(feature = "cluster")]
mod embedded;
#[cfg(feature = "cluster")]
mod genuine;
mod hostile;
mod isolated_host;
mod layout;
#[cfg(feature = "cluster")]
mod lines;
#[cfg(feature = "cluster")]
mod objects;
mod openshift;
#[cfg(feature = "cluster")]
mod peers;
mod process;
mod proxy;
#[cfg(feature = "cluster")]
pub mod recording;
mod registry;
#[cfg(feature = "cluster")]
mod remote;
#[cfg(feature = "cluster")]
mod rights;
#[cfg(feature = "cluster")]
mod served;
mod tar;
#[cfg(feature = "cluster")]
mod tls_client;
mod wait;
mod web;
#[cfg(feature = "cluster")]
mod webhook;

#[cfg(feature = "cluster")]
pub use certificate::{certificate, certificate_for};
#[cfg(feature = "cluster")]
pub use cluster::{TestCluster, WEBHOOK_CALLER};
pub use command_output::{CommandOutput, has};
pub use container_disk::{ContainerDisk, same_bytes};
#[cfg(feature = "cri")]
pub use cri::CriClient;
#[cfg(feature = "cluster")]
pub use descheduler::DeschedulerPlayer;
#[cfg(feature = "cluster")]
pub use genuine::Fsync;
pub use hostile::{Asked, FaultyServer, ScriptedResponse};
pub use isolated_host::IsolatedHost;
pub use layout::Layout;
#[cfg(feature = "cluster")]
pub use lines::Lines;
#[cfg(feature = "cluster")]
pub use objects::{by, until, until_gone};
pub use openshift::openshift_crds;
#[cfg(feature = "cluster")]
pub use peers::{install_peer_crds, peer, peer_version};
pub use process::{Process, free_port};
pub use proxy::Proxy;
pub use registry::{PASSWORD, Registry, RegistryOptions, USERNAME};
#[cfg(feature = "cluster")]
pub use rights::Forbidden;
#[cfg(feature = "cluster")]
pub use served::ServedCluster;
pub use tar::Tar;
#[cfg(feature = "cluster")]
pub use tls_client::TlsClient;
pub use wait::wait_until;
pub use web::WebFile;
#[cfg(feature = "cluster")]
pub use webhook::{Question, Reply, WebhookServer};

/// Installs the TLS crypto provider of the process; the first one installed stays.
#[cfg(feature = "cluster")]
pub fn install_crypto() {
    // An error means that one is installed already, and there is only one to choose.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}
