//! `medley webhook`: the admission webhooks, in a cluster or outside of it.

mod callers;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ::webhook::{
    Authorities, Certificates, Health, Layer, PlacementSettings, Settings, Trust, WebhookAddress,
    Webhooks,
};
use anyhow::{Context as _, bail};
use clap::Args;
use controllers::Job;
use kube::Client;
use serving::certificates::Files;

use crate::service::{ServiceArguments, jobs, listen_for_probes};
use crate::{exit, process};
use callers::CallerArguments;

/// Poll interval of the shared CAs, much shorter than the time before a new CA is used.
const AUTHORITIES: Duration = Duration::from_mins(1);

/// Serve the admission webhooks.
///
/// The webhooks check and record approvals of plans, validate image policies, choose CPU models, and
/// place pods. --register creates the webhook configurations. While no webhook answers, the API
/// server rejects changes of VirtPlatformConfigs, virtual machines that leave the choice of their CPU
/// model to Medley do not start, and golden images and pods are admitted unchanged. The API server
/// sends golden images and pods only if --controllers names their controllers. Certificates are
/// issued anew at every start, so several replicas need certificate files or a shared Secret.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) service: ServiceArguments,

    /// Address to listen on.
    #[arg(long, value_name = "ADDR", env = "MEDLEY_ADDRESS")]
    #[arg(default_value = "0.0.0.0:9443")]
    address: SocketAddr,

    /// Address for /livez, /healthz and /readyz over plain HTTP, so that probes do not depend on
    /// the load at --address.
    #[arg(long, value_name = "ADDR", env = "MEDLEY_HEALTH_ADDRESS")]
    #[arg(default_value = "0.0.0.0:8082")]
    health_address: SocketAddr,

    /// Additional address for /metrics over TLS, for networks where only the API server reaches
    /// --address.
    #[arg(long, value_name = "ADDR", env = "MEDLEY_METRICS_ADDRESS")]
    metrics_address: Option<SocketAddr>,

    /// Certificate to serve metrics with at --metrics-address, in PEM; reloaded when the file
    /// changes.
    /// [default: that of the webhook]
    #[arg(long, value_name = "PATH", env = "MEDLEY_METRICS_TLS_CERT")]
    #[arg(requires_all = ["metrics_address", "metrics_tls_key"])]
    metrics_tls_cert: Option<PathBuf>,

    /// Private key of that certificate, in PEM.
    #[arg(long, value_name = "PATH", env = "MEDLEY_METRICS_TLS_KEY")]
    #[arg(requires = "metrics_tls_cert")]
    metrics_tls_key: Option<PathBuf>,

    #[command(flatten)]
    callers: CallerArguments,

    /// Serving certificate, in PEM; reloaded when the file changes.
    #[arg(long, value_name = "PATH", env = "MEDLEY_TLS_CERT")]
    #[arg(requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// Private key of the serving certificate, in PEM.
    #[arg(long, value_name = "PATH", env = "MEDLEY_TLS_KEY")]
    #[arg(requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// CA of --tls-cert, which --register makes the API server trust.
    #[arg(long, value_name = "PATH", env = "MEDLEY_TLS_CA")]
    #[arg(requires_all = ["tls_cert", "register"])]
    tls_ca: Option<PathBuf>,

    /// Issue certificates from CAs that are kept in this Secret, so that the API server trusts all
    /// replicas. The Secret is created if missing; certificates and CAs are renewed in time.
    #[arg(long, value_name = "NAME", env = "MEDLEY_TLS_SECRET")]
    #[arg(requires = "register", conflicts_with = "tls_cert")]
    tls_secret: Option<String>,

    /// Register the webhooks with the API server under this address: url=https://HOST[:PORT] or
    /// service=NAMESPACE/NAME[:PORT].
    #[arg(long, value_name = "WHERE", env = "MEDLEY_REGISTER")]
    register: Option<WebhookAddress>,

    /// Comma-separated controllers to register webhooks for, as in `medley run`.
    /// [default: governance, cpu-models, release]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    #[arg(env = "MEDLEY_CONTROLLERS", requires = "register")]
    controllers: Option<Vec<Job>>,
}

/// The admission checks of the given jobs.
pub(crate) fn checks(jobs: &BTreeSet<Job>, placement: &PlacementSettings) -> Webhooks {
    let layer = |job: &Job| match job {
        Job::Governance | Job::CpuModels | Job::Release | Job::Placement | Job::RuntimeClasses => {
            None
        }
        Job::ImagesHco => Some(Layer::Hco),
        Job::ImagesSsp => Some(Layer::Ssp),
        Job::ImagesCdi => Some(Layer::Cdi),
        Job::ImagesVm => Some(Layer::Vm),
    };
    Webhooks {
        approvals: jobs.contains(&Job::Governance),
        layers: jobs.iter().filter_map(layer).collect(),
        cpu_models: jobs.contains(&Job::CpuModels),
        placement: jobs.contains(&Job::Placement).then(|| placement.clone()),
    }
}

/// Serves until SIGTERM or SIGINT.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (_, registries) = arguments.service.registries()?;
    let placement = PlacementSettings::new(registries, arguments.service.namespace());
    let origin = origin(arguments)?;
    process::build_runtime()?.block_on(async {
        let stop = process::stop_signal()?;
        let traces = arguments.service.traces.start()?;
        let health = Health::default();
        // Not ready before the registration is written: the Service would otherwise send reviews to
        // a replica whose CA the API server does not trust yet.
        if arguments.register.is_some() {
            health.expect_registration();
        }
        let probes = listen_for_probes(arguments.health_address).await?;
        // Probes are answered while reviews are drained, until the process ends.
        tokio::spawn(health.clone().serve(probes));
        let client = arguments.service.cluster.client().await?;
        let (certificates, authority) = match origin {
            Origin::Files(certificates, authority) => (certificates, authority),
            Origin::Ours(reach) => (made(arguments, &client, reach).await?, None),
        };
        let metrics_files = match (&arguments.metrics_tls_cert, &arguments.metrics_tls_key) {
            (Some(certificate), Some(key)) => Some(Files::open(certificate, key, Files::EVERY)?),
            _ => None,
        };
        let settings = Settings {
            address: arguments.address,
            metrics: arguments.metrics_address,
            metrics_files,
            certificates,
            callers: arguments.callers.verification(),
            health,
        };
        let mut running = ::webhook::serve_with(client.clone(), settings).await?;
        running.use_placement(placement.clone());
        // One rule for both sockets: that of the publicly reachable one.
        let shown = arguments.metrics_address;
        let shown = shown.filter(|it| !it.ip().is_loopback());
        let shown = shown.unwrap_or(arguments.address);
        if let Some(keeper) = arguments.service.metrics.keeper(shown, &client) {
            running.guard_metrics(keeper);
        }
        let trust = authority.as_ref().or_else(|| running.trust()).cloned();
        if let (Some(reach), Some(trust)) = (&arguments.register, trust) {
            let checks = checks(&jobs(arguments.controllers.as_ref()), &placement);
            // After the server listens: from the moment of registration the API server calls it,
            // with failure policy Fail for approvals.
            ::webhook::register_webhooks(&client, &trust, reach, &checks, &mut running).await?;
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
    Ours(&'a WebhookAddress),
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
        // Without a CA bundle the API server would use the roots of its host, and every governed
        // write would fail with a TLS error that names no flag.
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
    reach: &WebhookAddress,
) -> anyhow::Result<Certificates> {
    let Some(secret) = &arguments.tls_secret else {
        return Ok(Certificates::self_made(&reach.names())?);
    };
    let namespace = arguments.service.namespace();
    let authorities = Authorities::open(client.clone(), &namespace, secret, reach.names()).await?;
    Ok(Certificates::Shared {
        authorities: Box::new(authorities),
        every: AUTHORITIES,
    })
}
