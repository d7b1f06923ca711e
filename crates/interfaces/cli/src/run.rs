//! `medley run`: the operator, in a cluster or outside of it.

mod own;

use std::future::pending;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ::console::Console;
use anyhow::Context as _;
use clap::{ArgAction, Args};
use clusteroperator_reporter::Follow;
use controllers::health::{LogLevel, Phase};
use controllers::images::cdi::Imports;
use controllers::{Health, Job, Options};
use kube::Client;
use runtime::leader::{Election, Leadership, Timing};
use runtime::{Error, Manager, WriteFence};
use tokio::net::TcpListener;
use tracing::{info, warn};

use crate::cluster::ClusterArguments;
use crate::config_file::ConfigArguments;
use crate::images::registry::{AddressArguments, RegistryArguments};
use crate::logging::LogArguments;
use crate::metrics::{MetricsAddressArguments, MetricsArguments};
use crate::otlp::TraceArguments;
use crate::{console, exit, host, logging, process, version};

/// Name of the leader election lease.
const LEASE: &str = "medley";
/// Default namespace.
const NAMESPACE: &str = "medley-system";
/// Where a pod finds the namespace of its service account.
const ACCOUNT_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Run the operator against a cluster.
///
/// One replica leads. The others keep warm caches, write nothing, and take over when it is gone.
/// CRDs that are not installed yet are picked up when they are. Stops on Ctrl-C and SIGTERM; exits
/// with an error when it loses the lease.
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

    /// The controllers to run, separated by commas: governance, images-hco, images-ssp, images-cdi,
    /// images-vm, cpu-models, release, placement, runtime-classes. The images controllers replace
    /// upstream operators, so enable them only where those do not run. Placement also has to be
    /// enabled in `medley webhook`.
    /// [default: governance, cpu-models, release]
    #[arg(
        long,
        value_name = "NAMES",
        env = "MEDLEY_CONTROLLERS",
        value_delimiter = ','
    )]
    controllers: Option<Vec<Job>>,

    /// The image of the pods that import golden images; it contains this program.
    #[arg(long, value_name = "IMAGE", env = "MEDLEY_IMPORTER_IMAGE", default_value = version::IMAGE)]
    importer_image: String,

    /// A directory below which a ReleasePolicy may name one with the files of a release
    /// (spec.payload.folder); other paths are not opened. Can be repeated.
    #[arg(
        long,
        value_name = "DIR",
        env = "MEDLEY_PAYLOAD_FOLDER",
        value_delimiter = ','
    )]
    payload_folder: Vec<PathBuf>,

    /// Governance profiles to enable that are off by default, separated by commas.
    #[arg(
        long,
        value_name = "NAMES",
        env = "MEDLEY_ENABLE_PROFILE",
        value_delimiter = ','
    )]
    enable_profile: Vec<String>,

    /// The namespace for the operator's own objects; it has to exist.
    /// [default: $POD_NAMESPACE, then that of the pod's service account, then medley-system]
    #[arg(long, value_name = "NAME", env = "MEDLEY_NAMESPACE")]
    namespace: Option<String>,

    /// Act only while holding a lease. Disable it only where no other replica can run.
    #[arg(
        long,
        value_name = "BOOL",
        env = "MEDLEY_LEADER_ELECT",
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = true,
        default_missing_value = "true"
    )]
    leader_elect: bool,

    #[command(flatten)]
    own: own::OwnArguments,

    /// Address for /livez, /readyz, /healthz, /metrics and /loglevel.
    #[arg(
        long,
        value_name = "ADDR",
        env = "MEDLEY_HEALTH_ADDRESS",
        default_value = "0.0.0.0:8081"
    )]
    health_address: SocketAddr,

    #[command(flatten)]
    metrics: MetricsArguments,

    #[command(flatten)]
    metrics_address: MetricsAddressArguments,

    /// Address for the web console. Users sign in with their own tokens; it has no permissions of
    /// its own.
    /// [default: no console]
    #[arg(long, value_name = "ADDR", env = "MEDLEY_CONSOLE")]
    console: Option<SocketAddr>,

    /// Host names of the console, separated by commas, besides addresses and localhost.
    #[arg(
        long,
        value_name = "NAMES",
        env = "MEDLEY_CONSOLE_HOST",
        value_delimiter = ',',
        requires = "console"
    )]
    console_host: Vec<String>,

    /// The console is behind a proxy that terminates TLS: set cookies as Secure.
    #[arg(long, env = "MEDLEY_CONSOLE_BEHIND_TLS", requires = "console")]
    console_behind_tls: bool,
}

/// Runs the operator until SIGTERM or SIGINT, or until it loses the lease.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<()> {
    let addresses = arguments.addresses.policy();
    let options = Options {
        jobs: match arguments.controllers {
            Some(jobs) => jobs.into_iter().collect(),
            None => Job::STANDARD.iter().copied().collect(),
        },
        namespace: arguments.namespace.unwrap_or_else(own_namespace),
        profiles: arguments.enable_profile,
        version: version::OPERATOR.to_owned(),
        imports: Imports::Pods {
            image: arguments.importer_image,
        },
        registries: arguments.registry.registries(&addresses)?,
        addresses,
        payload_folders: arguments.payload_folder,
    };
    let election = arguments.leader_elect.then(|| Election {
        namespace: options.namespace.clone(),
        name: LEASE.to_owned(),
        identity: identity(),
        timing: Timing::default(),
    });
    process::build_runtime()?.block_on(async {
        let stop = process::stop_signal()?;
        tokio::pin!(stop);
        let traces = arguments.traces.start()?;
        let config = arguments.cluster.config().await?;
        let client =
            Client::try_from(config.clone()).context("creating a client for the cluster")?;
        let address = arguments.health_address;
        let listener = TcpListener::bind(address).await.with_context(|| {
            format!(
                "listening on {address} for health checks; choose another with --health-address ADDR"
            )
        })?;
        let fence = match election {
            Some(_) => WriteFence::follower(),
            None => WriteFence::unelected(),
        };
        let manager = Manager::with_fence(client.clone(), fence.clone());
        let mut health = Health::new(manager.clone()).with_log_level(LogLevel {
            get: logging::level,
            set: logging::set_level,
        });
        // Not the manager's client: a standby replica writes nothing, but must send TokenReviews.
        let shown_at = arguments.metrics_address.address().unwrap_or(address);
        if let Some(keeper) = arguments.metrics.keeper(shown_at, &client) {
            health = health.guarded(keeper);
        }
        match arguments.metrics_address.listen(&manager).await? {
            None => manager.spawn(health.clone().serve(listener)),
            Some((metrics, tls)) => {
                manager.spawn(health.clone().serve_with_metrics_socket(listener, metrics, tls));
            }
        }
        if let Some(address) = arguments.console {
            let (listener, url) = console::listen(address, "--console").await?;
            let console = Console::new(::console::Options {
                hosts: arguments.console_host,
                secure: arguments.console_behind_tls,
                ..console::options(
                    config,
                    options.namespace.clone(),
                    options.addresses.clone(),
                )
            });
            info!(url, "serving the console");
            // Standby replicas serve the console, too.
            manager.spawn(async move { console.serve(listener, None, pending()).await });
        }
        // Candidates already have synced caches, so the leader starts without delay.
        tokio::select! {
            started = controllers::start(&manager, &options) => started?,
            () = &mut stop => return Ok(()),
        }
        health.enter(Phase::StandingBy);
        let leading = match election {
            None => None,
            Some(election) => tokio::select! {
                leading = election.acquire(client, fence) => Some(leading),
                () = &mut stop => {
                    manager.stop().await;
                    return Ok(());
                }
            },
        };
        health.enter(Phase::Working);
        let own = arguments.own.follow(manager.client(), &options.namespace);
        let ended = work(&manager, leading, own, stop).await;
        if let Some(traces) = traces {
            traces.finish().await;
        }
        ended
    })
}

/// Runs until `stop`, or until the lease is lost. The controllers wait for leadership themselves.
async fn work(
    manager: &Manager,
    mut leading: Option<Leadership>,
    own: Option<Follow>,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    if let Some(lease) = leading.as_ref().and_then(Leadership::lease) {
        let holder = lease
            .spec
            .as_ref()
            .and_then(|spec| spec.holder_identity.as_deref());
        let message = format!("{} became leader", holder.unwrap_or_default());
        info!(message);
        controllers::reasons::events(manager, controllers::reasons::PROCESS).normal(
            lease,
            "LeaderElection",
            message,
        );
    }
    if let Some(own) = own {
        manager.spawn(own::report(own));
    }
    let ended = exit::print("ready\n");
    if ended.is_ok() {
        tokio::select! {
            // Another replica may lead from now on, so work in progress is abandoned.
            lost = lost(&mut leading) => return Err(lost.into()),
            () = stop => {}
        }
    }
    tokio::select! {
        lost = lost(&mut leading) => return Err(lost.into()),
        () = manager.stop() => {}
    }
    if let Some(leading) = leading
        && let Err(error) = leading.release().await
    {
        warn!(%error, "cannot release the lease; the next leader has to wait for it to expire");
    }
    ended
}

/// Completes when the lease is lost; never without leader election.
async fn lost(leading: &mut Option<Leadership>) -> Error {
    match leading {
        Some(leading) => leading.keep().await,
        None => pending().await,
    }
}

/// A unique identity, in client-go's form.
fn identity() -> String {
    let host = host::hostname().unwrap_or_else(|| "medley".to_owned());
    format!("{host}_{}", uuid::Uuid::new_v4())
}

/// The namespace of this process.
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

    #[test]
    fn identities_are_unique() {
        assert_ne!(identity(), identity());
    }
}
