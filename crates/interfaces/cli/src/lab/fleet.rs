//! `medley fleet`: the nodes of a running simulated fleet, and the images of its registry.
//!
//! Everything goes through the API, so it works on any cluster that `medley up` runs, from any host
//! with its kubeconfig.

mod table;

use std::path::PathBuf;
use std::time::Duration;

use ::fleet::commands::{self, DrainOptions};
use ::fleet::model::{Cpu, Fleet, GENERATIONS, Pool};
use ::fleet::registry::{self, Architecture, IMAGES, Publication};
use anyhow::{Context as _, ensure};
use clap::builder::PossibleValuesParser;
use clap::{ArgGroup, Args, Subcommand};
use kube::Client;

use crate::cluster::ClusterArguments;
use crate::{exit, process};

/// Manage the nodes of the simulated fleet that `medley up` runs, and the images of its registry.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    cluster: ClusterArguments,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the nodes.
    List,
    Add(Add),
    /// Cordon nodes, then delete them and their pods.
    Remove(Nodes),
    /// Mark nodes as unschedulable.
    Cordon(Nodes),
    /// Mark nodes as schedulable.
    Uncordon(Nodes),
    Drain(Drain),
    /// Stop the kubelets of nodes, as in a power failure. The nodes become NotReady after 50 s.
    Fail(Nodes),
    /// Restart the kubelets of failed nodes, and let degraded nodes retry their machine
    /// configuration.
    Recover(Nodes),
    Degrade(Degrade),
    /// Pause machine config pools, so that their nodes keep the current configuration.
    Pause(MachineConfigPools),
    /// Resume machine config pools.
    Resume(MachineConfigPools),
    Publish(Publish),
}

#[derive(Debug, Args)]
struct Nodes {
    /// Names of the nodes.
    #[arg(required = true, value_name = "NODE")]
    nodes: Vec<String>,
}

#[derive(Debug, Args)]
struct MachineConfigPools {
    /// Names of the machine config pools, such as worker.
    #[arg(required = true, value_name = "POOL")]
    pools: Vec<String>,
}

/// Make nodes fail to apply their machine configuration, until they recover.
#[derive(Debug, Args)]
struct Degrade {
    #[command(flatten)]
    nodes: Nodes,

    /// Message that the nodes report.
    #[arg(long, value_name = "TEXT")]
    #[arg(default_value = "the configuration on disk is not what it should be")]
    message: String,
}

/// Publish a new revision of a boot image in the demo registry.
///
/// Controllers that keep boot images current find it at their next poll. Earlier revisions stay in
/// the registry under tags of their own: latest-1, latest-2 and so on.
#[derive(Debug, Args)]
struct Publish {
    /// Name of the image.
    #[arg(value_name = "IMAGE", value_parser = PossibleValuesParser::new(IMAGES.map(|image| image.name)))]
    image: String,

    /// Change only the disk of this architecture.
    /// [default: all disks]
    #[arg(long, value_name = "ARCH", value_parser = PossibleValuesParser::new(Architecture::ALL.map(Architecture::name)))]
    arch: Option<String>,

    /// Repack the disks without changing their content, so that only the digests change.
    #[arg(long, conflicts_with = "arch")]
    rebuild: bool,
}

/// Add nodes: copies of an existing node, nodes of an architecture, or nodes described in a file.
#[derive(Debug, Args)]
#[group(skip)]
#[command(group = ArgGroup::new("what").required(true).args(["like", "arch", "file"]))]
struct Add {
    /// Names of the new nodes or, with --arch, of the new pools.
    #[arg(value_name = "NAME", conflicts_with = "file")]
    names: Vec<String>,

    /// Node to copy.
    #[arg(long, value_name = "NODE", requires = "names")]
    like: Option<String>,

    /// Architecture of the nodes.
    #[arg(long, value_name = "ARCH", requires = "names")]
    arch: Option<String>,

    /// Operating system of the nodes.
    #[arg(long, value_name = "OS", default_value = "linux", requires = "arch")]
    os: String,

    /// Windows build of the nodes, such as 10.0.20348.
    #[arg(long, value_name = "BUILD", requires = "arch")]
    windows_build: Option<String>,

    /// CPU generation of the nodes, which determines the CPU models they support.
    #[arg(long, value_name = "GENERATION", requires = "arch", value_parser = PossibleValuesParser::new(GENERATIONS.map(|generation| generation.name)))]
    cpu: Option<String>,

    /// Number of nodes in each pool.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "arch")]
    count: u32,

    /// YAML file with node pools, in the format of `medley up --fleet`.
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// Cordon nodes and evict their pods, as PodDisruptionBudgets allow.
#[derive(Debug, Args)]
struct Drain {
    #[command(flatten)]
    nodes: Nodes,

    /// Also evict pods that no controller manages.
    #[arg(long)]
    force: bool,

    /// Also evict pods with emptyDir volumes; their data is lost.
    #[arg(long)]
    delete_emptydir_data: bool,

    /// Give up after this many seconds.
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<()> {
    process::build_runtime()?.block_on(async {
        let client = arguments.cluster.client().await?;
        match arguments.command {
            Command::List => exit::print(&table::render(&commands::list(&client).await?)),
            Command::Add(add) => add.run(&client).await,
            Command::Remove(nodes) => nodes.each(&client, "removed", commands::remove).await,
            Command::Cordon(nodes) => nodes.each(&client, "cordoned", commands::cordon).await,
            Command::Uncordon(nodes) => nodes.each(&client, "uncordoned", commands::uncordon).await,
            Command::Drain(drain) => drain.run(&client).await,
            Command::Fail(nodes) => nodes.each(&client, "fell silent", commands::fail).await,
            Command::Recover(nodes) => nodes.each(&client, "came back", commands::recover).await,
            Command::Degrade(Degrade { nodes, message }) => {
                let degrade = async |client: &Client, name: &str| {
                    commands::degrade(client, name, &message).await
                };
                nodes.each(&client, "degraded", degrade).await
            }
            Command::Pause(pools) => pools.set(&client, true).await,
            Command::Resume(pools) => pools.set(&client, false).await,
            Command::Publish(publish) => publish.run(&client).await,
        }
    })
}

impl Nodes {
    /// Applies an operation to the nodes one by one, and prints a line for each.
    async fn each(
        &self,
        client: &Client,
        done: &str,
        act: impl AsyncFn(&Client, &str) -> Result<(), runtime::Error>,
    ) -> anyhow::Result<()> {
        for name in &self.nodes {
            act(client, name).await?;
            exit::print(&format!("node/{name} {done}\n"))?;
        }
        Ok(())
    }
}

impl MachineConfigPools {
    async fn set(&self, client: &Client, paused: bool) -> anyhow::Result<()> {
        let done = if paused { "paused" } else { "resumed" };
        for name in &self.pools {
            commands::pause(client, name, paused).await?;
            exit::print(&format!("machineconfigpool/{name} {done}\n"))?;
        }
        Ok(())
    }
}

impl Publish {
    async fn run(self, client: &Client) -> anyhow::Result<()> {
        let what = match self.arch {
            _ if self.rebuild => Publication::Rebuild,
            Some(arch) => Publication::One(arch.parse()?),
            None => Publication::All,
        };
        let revision = registry::publish(client, &self.image, what).await?;
        exit::print(&format!(
            "image/{} published as revision {revision}\n",
            self.image
        ))
    }
}

impl Add {
    async fn run(self, client: &Client) -> anyhow::Result<()> {
        if let Some(like) = &self.like {
            commands::add_copies(client, like, &self.names).await?;
            return added(&self.names);
        }
        for pool in self.pools()? {
            added(&commands::add(client, pool).await?)?;
        }
        Ok(())
    }

    fn pools(self) -> anyhow::Result<Vec<Pool>> {
        if let Some(path) = &self.file {
            let what = || format!("reading the fleet {}", path.display());
            let text = std::fs::read_to_string(path).with_context(what)?;
            let pools = Fleet::parse(&text).with_context(what)?.pools;
            ensure!(!pools.is_empty(), "{} describes no nodes", path.display());
            return Ok(pools);
        }
        let arch = self.arch.unwrap_or_default();
        let pools = self.names.iter().map(|name| Pool {
            os: self.os.clone(),
            windows_build: self.windows_build.clone(),
            cpu: self.cpu.as_deref().map(Cpu::of_generation),
            count: self.count,
            ..Pool::new(name, &arch)
        });
        Ok(pools.collect())
    }
}

fn added(names: &[String]) -> anyhow::Result<()> {
    for name in names {
        exit::print(&format!("node/{name} added\n"))?;
    }
    Ok(())
}

impl Drain {
    async fn run(self, client: &Client) -> anyhow::Result<()> {
        let options = DrainOptions {
            // DaemonSet pods are recreated at once, so the simulated fleet always ignores them;
            // kubectl requires the flag.
            ignore_daemonsets: true,
            force: self.force,
            delete_emptydir_data: self.delete_emptydir_data,
            grace_period_seconds: None,
            timeout: self.timeout.map(Duration::from_secs),
        };
        for name in &self.nodes.nodes {
            let print_event = |line: String| {
                // The drain continues when standard output is closed.
                let _ = exit::print(&format!("{line}\n"));
            };
            commands::drain(client, name, &options, print_event).await?;
        }
        Ok(())
    }
}
