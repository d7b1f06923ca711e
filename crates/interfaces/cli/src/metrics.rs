//! Authorization and address of a process's metrics.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use kube::Client;
use runtime::Manager;
use runtime::access::EndpointAuthorizer;
use serving::certificates::{Files, SelfSigned, Tls};
use tokio::net::TcpListener;

use crate::host;

/// Authorization of metrics requests.
#[derive(Debug, Clone, Args)]
pub(crate) struct MetricsArguments {
    /// Who may read /metrics. With kubernetes, clients need a token whose user may get the
    /// nonResourceURL /metrics; with none, everyone may.
    /// [default: kubernetes, but none on a loopback address]
    #[arg(long, value_name = "WHO", env = "MEDLEY_METRICS_AUTH", value_enum)]
    metrics_auth: Option<MetricsAuth>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MetricsAuth {
    /// Users whom the cluster authorizes.
    Kubernetes,
    /// Everyone.
    None,
}

impl MetricsArguments {
    /// The authorizer for an address; `None` if everyone may read metrics.
    pub(crate) fn keeper(
        &self,
        address: SocketAddr,
        client: &Client,
    ) -> Option<EndpointAuthorizer> {
        let is_guarded = match self.metrics_auth {
            Some(who) => who == MetricsAuth::Kubernetes,
            None => !address.ip().is_loopback(),
        };
        is_guarded.then(|| EndpointAuthorizer::new(client.clone()))
    }
}

/// The TLS address of metrics.
#[derive(Debug, Clone, Args)]
pub(crate) struct MetricsAddressArguments {
    /// Address for /metrics and /loglevel over TLS, so that clients do not send tokens in the clear.
    /// They are no longer served at --health-address then.
    /// [default: at --health-address, over plain HTTP]
    #[arg(id = "metrics_address", long = "metrics-address")]
    #[arg(value_name = "ADDR", env = "MEDLEY_METRICS_ADDRESS")]
    address: Option<SocketAddr>,

    /// Certificate to serve metrics with, in PEM; reloaded when the file changes.
    /// [default: self-signed and new at every start, so that clients cannot verify it]
    #[arg(id = "metrics_tls_cert", long = "metrics-tls-cert")]
    #[arg(value_name = "PATH", env = "MEDLEY_METRICS_TLS_CERT")]
    #[arg(requires_all = ["metrics_address", "metrics_tls_key"])]
    certificate: Option<PathBuf>,

    /// Private key of that certificate, in PEM.
    #[arg(id = "metrics_tls_key", long = "metrics-tls-key")]
    #[arg(value_name = "PATH", env = "MEDLEY_METRICS_TLS_KEY")]
    #[arg(requires = "metrics_tls_cert")]
    key: Option<PathBuf>,
}

impl MetricsAddressArguments {
    /// The address, if metrics have one of their own.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Listens there, if metrics have an address of their own. The certificate is renewed while the
    /// manager runs.
    pub(crate) async fn listen(
        &self,
        manager: &Manager,
    ) -> anyhow::Result<Option<(TcpListener, serving::Tls)>> {
        let Some(address) = self.address else {
            return Ok(None);
        };
        let tls = if let (Some(certificate), Some(key)) = (&self.certificate, &self.key) {
            let files = Files::open(certificate, key, Files::EVERY)?;
            let tls = Tls::new(files.pair())?;
            manager.spawn(tls.clone().follow(files));
            tls
        } else {
            let own = SelfSigned::new("medley-metrics", &host::server_names(address.ip()))?;
            Tls::new(own.pair())?
        };
        let listener = TcpListener::bind(address).await.with_context(|| {
            format!(
                "listening on {address} for metrics; choose another address with --metrics-address ADDR"
            )
        })?;
        Ok(Some((listener, tls.of_listener())))
    }
}
