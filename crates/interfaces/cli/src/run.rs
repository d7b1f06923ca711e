//! `medley run`: the operator, in a cluster or beside one.

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
use runtime::{Error, Manager, Turn};
use tokio::net::TcpListener;
use tracing::{info, warn};

use crate::cluster::ClusterArguments;
use crate::config_file::ConfigArguments;
use crate::images::registry::{AddressArguments, RegistryArguments};
use crate::logging::LogArguments;
use crate::metrics::{MetricsAddressArguments, MetricsArguments};
use crate::otlp::TraceArguments;
use crate::{console, exit, host, logging, process, version};

/// The lease that replicas agree by on who works.
const LEASE: &str = "medley";
/// The namespace there is when nobody says another.
const NAMESPACE: &str = "medley-system";
/// Where a pod finds the namespace of its service account.
const ACCOUNT_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Run the operator against a cluster.
///
/// Of several that run, one works. The others see all that it sees, write nothing, and take over when it
/// is gone. Kinds that are not installed are picked up when they are. Stops on Ctrl-C and SIGTERM; ends
/// with an error when another one has taken over.
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

    /// The controllers to run, separated by commas: governance, images-hco, images-ssp,
    /// images-cdi, images-vm, cpu-models, release, placement, runtime-classes. Those of images do what upstream
    /// operators do, so name them only where the others do not run. That of placement needs `medley webhook` to
    /// be told of it, too.
    /// [default: governance, cpu-models, release]
    #[arg(
        long,
        value_name = "NAMES",
        env = "MEDLEY_CONTROLLERS",
        value_delimiter = ','
    )]
    controllers: Option<Vec<Job>>,

    /// The image of the pods that import golden images: one of this program.
    #[arg(long, value_name = "IMAGE", env = "MEDLEY_IMPORTER_IMAGE", default_value = version::IMAGE)]
    importer_image: String,

    /// A folder below which a ReleasePolicy may name one with the files of a release (spec.payload.folder); others
    /// are not opened. Can be given several times.
    #[arg(
        long,
        value_name = "DIR",
        env = "MEDLEY_PAYLOAD_FOLDER",
        value_delimiter = ','
    )]
    payload_folder: Vec<PathBuf>,

    /// Profiles of governance to switch on that are off otherwise, separated by commas.
    #[arg(
        long,
        value_name = "NAMES",
        env = "MEDLEY_ENABLE_PROFILE",
        value_delimiter = ','
    )]
    enable_profile: Vec<String>,

    /// The namespace for what the operator keeps for itself; it has to be there.
    /// [default: $POD_NAMESPACE, then that of the pod's service account, then medley-system]
    #[arg(long, value_name = "NAME", env = "MEDLEY_NAMESPACE")]
    namespace: Option<String>,

    /// Work only while holding a lease. Say =false only where no other one can run.
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

    /// Address for the web console. Users sign in with their own tokens; it has no rights of its own.
    /// [default: no console]
    #[arg(long, value_name = "ADDR", env = "MEDLEY_CONSOLE")]
    console: Option<SocketAddr>,

    /// Names that browsers reach the console by, separated by commas, besides addresses and localhost.
    #[arg(
        long,
        value_name = "NAMES",
        env = "MEDLEY_CONSOLE_HOST",
        value_delimiter = ',',
        requires = "console"
    )]
    console_host: Vec<String>,

    /// Browsers reach the console by TLS, through a proxy that ends it: cookies are for TLS alone.
    #[arg(long, env = "MEDLEY_CONSOLE_BEHIND_TLS", requires = "console")]
    console_behind_tls: bool,
}

/// Runs the operator until it is asked to stop, or until it does not lead any more.
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
            Client::try_from(config.clone()).context("preparing to talk to the cluster")?;
        let address = arguments.health_address;
        let listener = TcpListener::bind(address).await.with_context(|| {
            format!(
                "listening on {address} for health checks; choose another with --health-address ADDR"
            )
        })?;
        let turn = match election {
            Some(_) => Turn::waiting(),
            None => Turn::always(),
        };
        let manager = Manager::in_turn(client.clone(), turn.clone());
        let mut health = Health::new(manager.clone()).with_log_level(LogLevel {
            get: logging::level,
            set: logging::set_level,
        });
        // Not that of the manager: a replica that stands by writes nothing, but it may ask who somebody is.
        let shown_at = arguments.metrics_address.address().unwrap_or(address);
        if let Some(keeper) = arguments.metrics.keeper(shown_at, &client) {
            health = health.guarded(keeper);
        }
        match arguments.metrics_address.listen(&manager).await? {
            None => manager.spawn(health.clone().serve(listener)),
            Some((metrics, tls)) => {
                manager.spawn(health.clone().serve_apart(listener, metrics, tls));
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
            info!(url, "the console answers");
            // Replicas that wait to take over show as much as the one that works.
            manager.spawn(async move { console.serve(listener, None, pending()).await });
        }
        // Who stands for election has seen what there is to see, and can begin at once.
        tokio::select! {
            started = controllers::start(&manager, &options) => started?,
            () = &mut stop => return Ok(()),
        }
        health.enter(Phase::StandingBy);
        let leading = match election {
            None => None,
            Some(election) => tokio::select! {
                leading = election.acquire(client, turn) => Some(leading),
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

/// Works until `stop`, or for as long as it leads. The controllers have begun by themselves.
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
        controllers::words::events(manager, controllers::words::PROCESS).normal(
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
            // Somebody else may work from now on: nothing is brought to its end any more.
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
        warn!(%error, "the next one has to wait for the lease to expire");
    }
    ended
}

/// Ready when this one does not lead any more; never if nobody is elected.
async fn lost(leading: &mut Option<Leadership>) -> Error {
    match leading {
        Some(leading) => leading.keep().await,
        None => pending().await,
    }
}

/// A name that no other process has, as client-go makes it.
fn identity() -> String {
    let host = host::hostname().unwrap_or_else(|| "medley".to_owned());
    format!("{host}_{}", uuid::Uuid::new_v4())
}

/// The namespace this process belongs to.
pub(crate) fn own_namespace() -> String {
    let account = || std::fs::read_to_string(Path::new(ACCOUNT_NAMESPACE)).ok();
    let named = std::env::var("POD_NAMESPACE").ok();
    first_named([named, account()]).unwrap_or_else(|| NAMESPACE.to_owned())
}

/// The first that says something.
fn first_named(said: impl IntoIterator<Item = Option<String>>) -> Option<String> {
    said.into_iter()
        .flatten()
        .map(|name| name.trim().to_owned())
        .find(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_nothing_does_not_count() {
        let said = |text: &str| Some(text.to_owned());
        assert_eq!(first_named([said("a"), said("b")]), said("a"));
        assert_eq!(first_named([None, said("b\n")]), said("b"));
        assert_eq!(first_named([said(""), said(" "), None]), None);
    }

    #[test]
    fn two_processes_have_two_names() {
        assert_ne!(identity(), identity());
    }
}
