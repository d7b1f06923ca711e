//! `medley run`: the operator, in a cluster or outside of it.

mod own;
mod served_console;

use std::future::pending;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgAction, Args, value_parser};
use clusteroperator_reporter::Follow;
use controllers::health::{LogLevel, Phase};
use controllers::images::cdi::Imports;
use controllers::{Health, Job, Options};
use runtime::leader::{Election, Leadership, Timing};
use runtime::{Error, Manager, WriteFence};
use tracing::{info, warn};

use crate::cluster;
use crate::metrics::MetricsAddressArguments;
use crate::service::{ServiceArguments, jobs, listen_for_probes};
use crate::{console, exit, host, logging, process, version};

/// Name of the leader election lease.
const LEASE: &str = "medley";

/// Run the operator against a cluster.
///
/// One replica leads. The others keep their caches warm, write nothing, and take over when the
/// leader is gone. The operator picks up CRDs that are installed later without a restart. It stops
/// on Ctrl-C and SIGTERM, and exits with an error if it loses the lease.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) service: ServiceArguments,

    /// Comma-separated controllers to run: governance, images-hco, images-ssp, images-cdi,
    /// images-vm, cpu-models, release, placement, runtime-classes. The images controllers replace
    /// upstream operators, so enable them only where those do not run. Enable placement in `medley
    /// webhook` as well.
    /// [default: governance, cpu-models, release]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    #[arg(env = "MEDLEY_CONTROLLERS")]
    controllers: Option<Vec<Job>>,

    /// Image of the pods that import golden images. It has to contain this program.
    #[arg(long, value_name = "IMAGE", env = "MEDLEY_IMPORTER_IMAGE", default_value = version::IMAGE)]
    importer_image: String,

    /// Directory below which a ReleasePolicy may refer to release manifests (spec.payload.folder);
    /// the operator opens no other path. Can be repeated.
    #[arg(long, value_name = "DIR", value_delimiter = ',')]
    #[arg(env = "MEDLEY_PAYLOAD_FOLDER")]
    payload_folder: Vec<PathBuf>,

    /// Comma-separated governance profiles to enable besides the default ones.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    #[arg(env = "MEDLEY_ENABLE_PROFILE")]
    enable_profile: Vec<String>,

    /// Entries of governance's audit log to keep in the cluster; older ones are deleted.
    #[arg(long, value_name = "NUMBER", env = "MEDLEY_AUDIT_ENTRIES")]
    #[arg(default_value_t = controllers::governance::AUDIT_ENTRIES)]
    #[arg(value_parser = value_parser!(u64).range(100..))]
    audit_entries: u64,

    /// Act only while holding the leader election lease. Disable this only where no other replica
    /// can run.
    #[arg(long, value_name = "BOOL", env = "MEDLEY_LEADER_ELECT")]
    #[arg(action = ArgAction::Set, num_args = 0..=1, require_equals = true)]
    #[arg(default_value_t = true, default_missing_value = "true")]
    leader_elect: bool,

    #[command(flatten)]
    own: own::OwnArguments,

    /// Address for /livez, /readyz, /healthz, /metrics and /loglevel.
    #[arg(long, value_name = "ADDR", env = "MEDLEY_HEALTH_ADDRESS")]
    #[arg(default_value = "0.0.0.0:8081")]
    health_address: SocketAddr,

    #[command(flatten)]
    metrics_address: MetricsAddressArguments,

    #[command(flatten)]
    console: served_console::ConsoleArguments,
}

/// Runs the operator until SIGTERM or SIGINT, or until it loses the lease.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<()> {
    let (addresses, registries) = arguments.service.registries()?;
    let options = Options {
        jobs: jobs(arguments.controllers.as_ref()),
        namespace: arguments.service.namespace(),
        profiles: arguments.enable_profile,
        version: version::OPERATOR.to_owned(),
        imports: Imports::Pods {
            image: arguments.importer_image,
        },
        registries,
        addresses,
        audit_entries: arguments.audit_entries,
        payload_folders: arguments.payload_folder,
    };
    let election = arguments.leader_elect.then(|| Election {
        namespace: options.namespace.clone(),
        name: LEASE.to_owned(),
        identity: identity(),
        timing: Timing::default(),
    });
    process::build_runtime()?.block_on(async {
        // First: SIGTERM may arrive while the operator still connects, and has to end it with exit
        // code 0 there, too.
        let stop = process::stop_signal()?;
        tokio::pin!(stop);
        let traces = arguments.service.traces.start()?;
        let config = arguments.service.cluster.config().await?;
        let client = cluster::client(config.clone())?;
        let address = arguments.health_address;
        // Before the caches fill, which can take longer in a large cluster than the liveness probe
        // allows: without a socket kubelet would restart the pod each time.
        let listener = listen_for_probes(address).await?;
        let fence = match election {
            // Closed until the lease is acquired: controllers start before that, and every write
            // they attempt has to fail.
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
        if let Some(keeper) = arguments.service.metrics.keeper(shown_at, &client) {
            health = health.guarded(keeper);
        }
        match arguments.metrics_address.listen(&manager).await? {
            None => manager.spawn(health.clone().serve(listener)),
            Some((metrics, tls)) => {
                manager.spawn(
                    health
                        .clone()
                        .serve_with_metrics_socket(listener, metrics, tls),
                );
            }
        }
        // Standby replicas serve the console, too. Not the manager's client: each of them keeps the
        // keys of sessions.
        let console = console::options(
            config,
            options.namespace.clone(),
            options.addresses.clone(),
            options.registries.client().clone(),
        );
        arguments.console.serve(&manager, &client, console).await?;
        // Candidates already have synced caches, so the leader starts without delay.
        tokio::select! {
            started = controllers::start(&manager, &options) => started?,
            () = &mut stop => return Ok(()),
        }
        // Ready from here on, also as a follower: a rolling update of two replicas would otherwise
        // wait for a leader that cannot go away.
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
        // Only the leader reports, through the fenced client.
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
        // Controllers finish their reconcile while the lease is still renewed. Released first, the
        // next leader could act on the same objects at the same time.
        () = manager.stop() => {}
    }
    if let Some(leading) = leading
        // Only after all controllers have stopped. Without a release the next leader waits the 15
        // seconds of the lease.
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
    // The host name alone would repeat after a restart of the container, and the new process would
    // take the old one's lease for its own.
    format!("{host}_{}", uuid::Uuid::new_v4())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_unique() {
        assert_ne!(identity(), identity());
    }
}
