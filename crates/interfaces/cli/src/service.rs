//! Arguments that `medley run` and `medley webhook` share.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context as _;
use clap::Args;
use controllers::{Job, Registries};
use platform::AddressPolicy;
use tokio::net::TcpListener;

use crate::cluster::KubeconfigArguments;
use crate::config_file::ConfigArguments;
use crate::images::registry::{AddressArguments, RegistryArguments};
use crate::logging::LogArguments;
use crate::metrics::MetricsArguments;
use crate::otlp::TraceArguments;

/// Default namespace.
const NAMESPACE: &str = "medley-system";
/// Where a pod finds the namespace of its service account.
const ACCOUNT_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Cluster, registries, logs, traces and metrics of a long-running process.
#[derive(Debug, Args)]
pub(crate) struct ServiceArguments {
    #[command(flatten)]
    pub(crate) cluster: KubeconfigArguments,

    #[command(flatten)]
    registry: RegistryArguments,

    #[command(flatten)]
    addresses: AddressArguments,

    #[command(flatten)]
    pub(crate) log: LogArguments,

    #[command(flatten)]
    pub(crate) traces: TraceArguments,

    #[command(flatten)]
    config: ConfigArguments,

    #[command(flatten)]
    pub(crate) metrics: MetricsArguments,

    /// Namespace of this process's own objects; it has to exist.
    /// [default: $POD_NAMESPACE, then that of the pod's service account, then medley-system]
    #[arg(long, value_name = "NAME", env = "MEDLEY_NAMESPACE")]
    namespace: Option<String>,
}

impl ServiceArguments {
    /// The addresses that objects may name, and the registries reached under these rules.
    pub(crate) fn registries(&self) -> anyhow::Result<(AddressPolicy, Registries)> {
        let addresses = self.addresses.policy();
        let registries = self.registry.registries(&addresses)?;
        Ok((addresses, registries))
    }

    /// The namespace of this process.
    pub(crate) fn namespace(&self) -> String {
        self.namespace.clone().unwrap_or_else(own_namespace)
    }
}

/// The given jobs, or the default ones.
pub(crate) fn jobs(given: Option<&Vec<Job>>) -> BTreeSet<Job> {
    let jobs = given.map_or(Job::STANDARD, Vec::as_slice);
    jobs.iter().copied().collect()
}

/// Listens for health checks.
pub(crate) async fn listen_for_probes(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| {
        format!(
            "listening on {address} for health checks; choose another address with --health-address ADDR"
        )
    })
}

/// The namespace of this process, from its environment.
pub(crate) fn own_namespace() -> String {
    let account = || std::fs::read_to_string(Path::new(ACCOUNT_NAMESPACE)).ok();
    let named = std::env::var("POD_NAMESPACE").ok();
    first_named([named, account()]).unwrap_or_else(|| NAMESPACE.to_owned())
}

/// The first name that is set and not empty.
fn first_named(names: impl IntoIterator<Item = Option<String>>) -> Option<String> {
    names
        .into_iter()
        .flatten()
        .map(|name| name.trim().to_owned())
        .find(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_namespaces_are_skipped() {
        let set = |text: &str| Some(text.to_owned());
        assert_eq!(first_named([set("a"), set("b")]), set("a"));
        assert_eq!(first_named([None, set("b\n")]), set("b"));
        assert_eq!(first_named([set(""), set(" "), None]), None);
    }
}
