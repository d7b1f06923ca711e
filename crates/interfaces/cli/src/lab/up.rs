//! `medley up`: a complete simulated cluster on this host.

mod cluster;
mod console;
mod fleet;
mod welcome;

use std::path::{Path, PathBuf};

use ::apiserver::auth::StaticTokens;
use ::fleet::operators::Installed;
use anyhow::Context as _;
use clap::Args;
use tempfile::TempDir;

use self::console::{Choice, Running};
use crate::images::registry::AddressArguments;
use crate::lab::embedded::{Embedded, PlaceArguments};
use crate::lab::restore;
use crate::{exit, process};
use cluster::Cluster;
use fleet::FleetChoice;

/// Run a complete cluster on this host, with an API server, controllers and a simulated fleet.
///
/// The cluster is kept in the data directory, and the next `medley up` continues from there. Golden
/// images are actually imported: their disks are in the subdirectory disks or, with --memory, in a
/// temporary directory. Prints next steps, and `ready` when the cluster can be used. Stops on Ctrl-C
/// and SIGTERM.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: PlaceArguments,

    /// Initial nodes: a YAML file, `demo` for a mixed fleet, or `none`. They are created once; later
    /// runs continue with the existing nodes.
    /// [default: demo; with --from: none]
    #[arg(long, value_name = "FILE|demo|none")]
    fleet: Option<FleetChoice>,

    /// Do not run the simulated third-party operators (machine-config, descheduler, virtualization,
    /// node health checks, data importer) or the demo registry, whose images they import. With
    /// --from, the operators act on the objects of the copy and install none.
    #[arg(long)]
    no_operators: bool,

    /// Speed of the simulation: how much faster than in reality images are pulled, containers start
    /// and stop, and nodes reboot.
    #[arg(long, value_name = "N", default_value_t = 10.0, value_parser = speed)]
    speed: f64,

    /// Address of the web console, or `none`.
    /// [default: 127.0.0.1:8080, or no console if that address is in use]
    #[arg(long, value_name = "ADDR|none")]
    console: Option<Choice>,

    /// Start from a copy of a cluster in a file written by `medley snapshot`, with simulated nodes.
    /// The copy is kept in memory unless --data names a new directory.
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,

    #[command(flatten)]
    addresses: AddressArguments,
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if speed.is_finite() && (0.001..=1e6).contains(&speed) => Ok(speed),
        _ => Err("expected a number from 0.001 to 1000000, 1 for real time".to_owned()),
    }
}

/// Directory of the disks of golden images.
enum Disks {
    /// In the data directory, for the next run.
    Kept(PathBuf),
    /// In a temporary directory, for a cluster in memory.
    Temporary(TempDir),
}

impl Disks {
    fn new(data: Option<&Path>) -> anyhow::Result<Self> {
        Ok(match data {
            Some(data) => Self::Kept(data.join("disks")),
            None => Self::Temporary(
                tempfile::Builder::new()
                    .prefix("medley-disks-")
                    .tempdir()
                    .context("creating a temporary directory for the disks of golden images")?,
            ),
        })
    }

    fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Temporary(folder) => folder.path(),
        }
    }
}

/// Runs a cluster until SIGTERM or SIGINT.
pub(crate) fn run(mut arguments: Arguments) -> anyhow::Result<()> {
    let copy = arguments
        .from
        .as_deref()
        .map(restore::Copy::open)
        .transpose()?;
    if copy.is_some() {
        arguments.place.memory_by_default();
    }
    let choice = arguments.fleet.unwrap_or(match copy {
        Some(_) => FleetChoice::None,
        None => FleetChoice::Demo,
    });
    let fleet = choice.load()?;
    let operators = (!arguments.no_operators).then(|| match copy {
        Some(_) => Installed::default(),
        None => Installed::demo(),
    });
    // The images are for a mixed fleet, and for the operators that import them.
    let registry = choice == FleetChoice::Demo && copy.is_none() && operators.is_some();
    let place = arguments.place.complete()?;
    if copy.is_some() {
        place.must_be_new()?;
    }
    process::build_runtime()?.block_on(async {
        let stop = process::stop_signal()?;
        tokio::pin!(stop);
        let starting = async {
            let embedded = Embedded::open(place, StaticTokens::default(), true).await?;
            let copied = match copy {
                Some(copy) => match copy.restore(embedded.server()).await {
                    Ok(copied) => Some(copied),
                    Err(error) => {
                        // Half a copy would pass for a cluster at the next start, which refuses to
                        // restore into an existing one.
                        embedded.discard().await;
                        return Err(error);
                    }
                },
                None => None,
            };
            let disks = Disks::new(embedded.data())?;
            let cluster = Cluster::start(
                embedded.server(),
                embedded.root_ca(),
                cluster::Options {
                    fleet,
                    operators,
                    registry,
                    speed: arguments.speed,
                    disks: disks.path().to_owned(),
                    addresses: arguments.addresses,
                },
            )
            .await?;
            // After the cluster works: scripts wait for this file, and kubectl would meet a server
            // without nodes or roles.
            embedded.write_kubeconfig()?;
            let console = Running::start(
                arguments.console,
                embedded.kubeconfig(),
                cluster::administrator(embedded.server()),
                cluster::NAMESPACE,
                cluster.addresses().clone(),
                cluster.registries().clone(),
            )
            .await?;
            anyhow::Ok((embedded, cluster, console, copied, disks))
        };
        let (embedded, cluster, console, copied, _disks) = tokio::select! {
            started = starting => started?,
            () = &mut stop => return Ok(()),
        };
        if let Some(copied) = copied {
            exit::print(&copied.to_string())?;
        }
        exit::print(&welcome::text(&embedded, &cluster, console.as_ref()).await?)?;
        let ending = async {
            stop.await;
            if let Some(console) = console {
                console.stop().await;
            }
            // Before the server stops: controllers that are stopping still need their API.
            cluster.stop().await;
        };
        Box::pin(embedded.serve(ending)).await;
        Ok(())
    })
}
