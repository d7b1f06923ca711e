//! Who is shown the metrics of a process.

use std::net::SocketAddr;

use chassis::access::Keeper;
use clap::{Args, ValueEnum};
use kube::Client;

/// Who is shown metrics.
#[derive(Debug, Clone, Args)]
pub(crate) struct MetricsArguments {
    /// Who is shown /metrics: whoever has a token and a role that allows to get the nonResourceURL /metrics,
    /// or everybody. [default: kubernetes, and none where only this machine can ask]
    #[arg(long, value_name = "WHO", env = "MEDLEY_METRICS_AUTH", value_enum)]
    metrics_auth: Option<MetricsAuth>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MetricsAuth {
    /// Whom the cluster allows it.
    Kubernetes,
    /// Everybody.
    None,
}

impl MetricsArguments {
    /// Who looks at those who ask at an address; none if everybody may.
    pub(crate) fn keeper(&self, address: SocketAddr, client: &Client) -> Option<Keeper> {
        let is_guarded = match self.metrics_auth {
            Some(who) => who == MetricsAuth::Kubernetes,
            None => !address.ip().is_loopback(),
        };
        is_guarded.then(|| Keeper::new(client.clone()))
    }
}
