//! `medley webhook`: the admission webhooks, in a cluster or outside of it.

mod callers;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ::webhook::{Authorities, Certificates, Checks, Health, Layer, Reach, Settings, Trust};
use anyhow::{Context as _, bail};
use clap::Args;
use controllers::{Job, Registries};
use kube::Client;
use serving::certificates::Files;
use tokio::net::TcpListener;

use crate::cluster::ClusterArguments;
use crate::config_file::ConfigArguments;
use crate::images::registry::{AddressArguments, RegistryArguments};
use crate::logging::LogArguments;
use crate::metrics::MetricsArguments;
use crate::otlp::TraceArguments;
use crate::run::own_namespace;
use crate::{exit, process};
use callers::CallerArguments;

/// Poll interval of the shared CAs, much shorter than the time before a new CA is used.
const AUTHORITIES: Duration = Duration::from_mins(1);

/// Serve the admission webhooks.
///
/// They check and record approvals of plans, validate image policies, choose CPU models, and place
/// pods. --register creates the webhook configurations. The API server sends every change of a
/// VirtPlatformConfig, and rejects such changes while this does not run. It sends virtual machines
/// that leave the choice of their CPU model to Medley; those wait while this does not run. Images
/// are sent where --controllers names their layers, and pods where it names placement; the API
/// server admits them unchanged if there is no answer. Certificates are new at every start; several
/// replicas need certificate files, or a shared Secret.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    cluster: ClusterArguments,

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
    metrics: MetricsArguments,

    /// Address to listen on.
    #[arg(
        long,
        value_name = "ADDR",
        env = "MEDLEY_ADDRESS",
        default_value = "0.0.0.0:9443"
    )]
    address: SocketAddr,

    /// Address for /livez, /healthz and /readyz over plain HTTP, so that probes do not depend on
    /// the load at --address.
    #[arg(
        long,
        value_name = "ADDR",
        env = "MEDLEY_HEALTH_ADDRESS",
        default_value = "0.0.0.0:8082"
    )]
    health_address: SocketAddr,

    /// Address for /metrics over TLS, besides --address: for networks where only the API server
    /// reaches that one.
    #[arg(long, value_name = "ADDR", env = "MEDLEY_METRICS_ADDRESS")]
    metrics_address: Option<SocketAddr>,

    #[command(flatten)]
    callers: CallerArguments,

    /// The certificate to serve with, in PEM; reloaded when it changes.
    #[arg(
        long,
        value_name = "PATH",
        env = "MEDLEY_TLS_CERT",
        requires = "tls_key"
    )]
    tls_cert: Option<PathBuf>,

    /// The key of the certificate.
    #[arg(
        long,
        value_name = "PATH",
        env = "MEDLEY_TLS_KEY",
        requires = "tls_cert"
    )]
    tls_key: Option<PathBuf>,

    /// The CA that the API server is to trust with --register, when --tls-cert is given.
    #[arg(
        long,
        value_name = "PATH",
        env = "MEDLEY_TLS_CA",
        requires_all = ["tls_cert", "register"]
    )]
    tls_ca: Option<PathBuf>,

    /// Issue certificates, and keep their CAs in this Secret, so that the API server trusts all
    /// replicas. It is created if missing; certificates and CAs are renewed in time.
    #[arg(
        long,
        value_name = "NAME",
        env = "MEDLEY_TLS_SECRET",
        requires = "register",
        conflicts_with = "tls_cert"
    )]
    tls_secret: Option<String>,

    /// The namespace of that Secret.
    /// [default: $POD_NAMESPACE, then that of the pod's service account, then medley-system]
    #[arg(long, value_name = "NAME", env = "MEDLEY_NAMESPACE")]
    namespace: Option<String>,

    /// Register the webhooks with the API server under this address: url=https://HOST[:PORT] or
    /// service=NAMESPACE/NAME[:PORT].
    #[arg(long, value_name = "WHERE", env = "MEDLEY_REGISTER")]
    register: Option<Reach>,

    /// The controllers to register webhooks for, separated by commas, as in `medley run`.
    /// [default: governance, cpu-models, release]
    #[arg(
        long,
        value_name = "NAMES",
        env = "MEDLEY_CONTROLLERS",
        value_delimiter = ',',
        requires = "register"
    )]
    controllers: Option<Vec<Job>>,
}

/// The admission checks of the given jobs.
pub(crate) fn checks(jobs: &BTreeSet<Job>, registries: &Registries) -> Checks {
    let layer = |job: &Job| match job {
        Job::Governance | Job::CpuModels | Job::Release | Job::Placement | Job::RuntimeClasses => {
            None
        }
        Job::ImagesHco => Some(Layer::Hco),
        Job::ImagesSsp => Some(Layer::Ssp),
        Job::ImagesCdi => Some(Layer::Cdi),
        Job::ImagesVm => Some(Layer::Vm),
    };
    Checks {
        approvals: jobs.contains(&Job::Governance),
        layers: jobs.iter().filter_map(layer).collect(),
        cpu_models: jobs.contains(&Job::CpuModels),
        placement: jobs.contains(&Job::Placement).then(|| registries.clone()),
    }
}

/// Serves until SIGTERM or SIGINT.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let registries = arguments
        .registry
        .registries(&arguments.addresses.policy())?;
    let origin = origin(arguments)?;
    process::build_runtime()?.block_on(async {
        let stop = process::stop_signal()?;
        let traces = arguments.traces.start()?;
        let health = Health::default();
        if arguments.register.is_some() {
            health.expect_registration();
        }
        let probes = arguments.health_address;
        let probes = TcpListener::bind(probes).await.with_context(|| {
            format!(
                "listening on {probes} for health checks; choose another with --health-address ADDR"
            )
        })?;
        // Probes are answered while reviews are drained, until the process ends.
        tokio::spawn(health.clone().serve(probes));
        let client = arguments.cluster.client().await?;
        let (certificates, authority) = match origin {
            Origin::Files(certificates, authority) => (certificates, authority),
            Origin::Ours(reach) => (made(arguments, &client, reach).await?, None),
        };
        let settings = Settings {
            address: arguments.address,
            metrics: arguments.metrics_address,
            certificates,
            callers: arguments.callers.verification(),
            health,
        };
        let mut running = ::webhook::serve_with(client.clone(), settings).await?;
        running.use_registries(registries.clone());
        // One rule for both sockets: that of the publicly reachable one.
        let shown = arguments.metrics_address;
        let shown = shown.filter(|it| !it.ip().is_loopback());
        let shown = shown.unwrap_or(arguments.address);
        if let Some(keeper) = arguments.metrics.keeper(shown, &client) {
            running.guard_metrics(keeper);
        }
        let trust = authority.as_ref().or_else(|| running.trust()).cloned();
        if let (Some(reach), Some(trust)) = (&arguments.register, trust) {
            let standard = || Job::STANDARD.to_vec();
            let jobs = arguments.controllers.clone().unwrap_or_else(standard);
            let jobs: BTreeSet<Job> = jobs.into_iter().collect();
            let checks = checks(&jobs, &registries);
            ::webhook::register_checks(&client, &trust, reach, &checks, &mut running).await?;
        }
        exit::print("ready\n")?;
        stop.await;
        running.stop().await;
        if let Some(traces) = traces {
            traces.finish().await;
        }
        Ok(())
    })
}

/// Source of the serving certificate.
enum Origin<'a> {
    /// Files, and the CA bundle to register.
    Files(Certificates, Option<Trust>),
    /// Issued here, for the registered address.
    Ours(&'a Reach),
}

fn origin(arguments: &Arguments) -> anyhow::Result<Origin<'_>> {
    let (Some(certificate), Some(key)) = (&arguments.tls_cert, &arguments.tls_key) else {
        return arguments.register.as_ref().map(Origin::Ours).context(
            "self-signed certificates need --register WHERE; or name a certificate with --tls-cert and --tls-key",
        );
    };
    let trust = match (&arguments.tls_ca, &arguments.register) {
        (Some(path), _) => {
            let authority = std::fs::read_to_string(path)
                .with_context(|| format!("reading the CA {}", path.display()))?;
            Some(Trust::fixed(authority))
        }
        (None, None) => None,
        (None, Some(_)) => bail!(
            "--register needs a CA for the API server to trust; name the CA of --tls-cert with --tls-ca PATH"
        ),
    };
    let files = Files::open(certificate, key, Files::EVERY)?;
    Ok(Origin::Files(Certificates::Files(files), trust))
}

/// A certificate issued here, for the registered address.
async fn made(
    arguments: &Arguments,
    client: &Client,
    reach: &Reach,
) -> anyhow::Result<Certificates> {
    let Some(secret) = &arguments.tls_secret else {
        return Ok(Certificates::self_made(&reach.names())?);
    };
    let namespace = arguments.namespace.clone().unwrap_or_else(own_namespace);
    let authorities = Authorities::open(client.clone(), &namespace, secret, reach.names()).await?;
    Ok(Certificates::Shared {
        authorities: Box::new(authorities),
        every: AUTHORITIES,
    })
}
