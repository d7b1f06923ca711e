//! Who is shown the metrics of a process, and where.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use kube::Client;
use runtime::Manager;
use runtime::access::Keeper;
use serving::certificates::{Files, SelfMade, Tls};
use tokio::net::TcpListener;

use crate::host;

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

/// Where metrics are shown by TLS.
#[derive(Debug, Clone, Args)]
pub(crate) struct MetricsAddressArguments {
    /// Address for /metrics and /loglevel by TLS, so that no token is sent in the clear. They are not at
    /// --health-address then.
    /// [default: at --health-address, over plain HTTP]
    #[arg(
        id = "metrics_address",
        long = "metrics-address",
        value_name = "ADDR",
        env = "MEDLEY_METRICS_ADDRESS"
    )]
    address: Option<SocketAddr>,

    /// The certificate to serve metrics with, in PEM; read again when it changes.
    /// [default: one that is made at every start, and that nobody can verify]
    #[arg(
        id = "metrics_tls_cert",
        long = "metrics-tls-cert",
        value_name = "PATH",
        env = "MEDLEY_METRICS_TLS_CERT",
        requires_all = ["metrics_address", "metrics_tls_key"]
    )]
    certificate: Option<PathBuf>,

    /// The key of that certificate.
    #[arg(
        id = "metrics_tls_key",
        long = "metrics-tls-key",
        value_name = "PATH",
        env = "MEDLEY_METRICS_TLS_KEY",
        requires = "metrics_tls_cert"
    )]
    key: Option<PathBuf>,
}

impl MetricsAddressArguments {
    /// The address, if metrics have one of their own.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Listens there, if metrics have an address of their own. The certificate is renewed while the manager
    /// runs.
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
            let own = SelfMade::new("medley-metrics", &host::server_names(address.ip()))?;
            Tls::new(own.pair())?
        };
        let listener = TcpListener::bind(address).await.with_context(|| {
            format!(
                "listening on {address} for metrics; choose another with --metrics-address ADDR"
            )
        })?;
        Ok(Some((listener, tls.of_listener())))
    }
}
