//! `medley node-config`: configuration for nodes.

use std::collections::BTreeSet;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;
use placement::runtime_classes::windows_builds;
use placement::{Cluster, containerd};
use platform::windows::Version;

use crate::cluster::ClusterArguments;
use crate::governance::configs::api_error;
use crate::{exit, process};

/// Print configuration for nodes.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Containerd(ContainerdArguments),
}

/// Print the runtime handlers that containerd needs on Windows nodes.
///
/// One handler shares the kernel of the node, and there is one Hyper-V handler per Windows build.
/// The RuntimeClasses that Medley creates name them, and `medley cri` selects images by the same
/// sections. Put the output into the directory that `imports` in containerd's configuration names.
#[derive(Debug, Args)]
struct ContainerdArguments {
    /// A Windows build (10.0.17763) whose images are to run. Can be repeated; the cluster is not
    /// read then.
    /// [default: the builds of the nodes of the cluster]
    #[arg(long, value_name = "BUILD", value_parser = build)]
    build: Vec<Version>,

    /// The architecture of the nodes.
    #[arg(long, value_name = "NAME", default_value = "amd64")]
    arch: String,

    /// The sandbox image, if it is not configured elsewhere.
    #[arg(long, value_name = "IMAGE")]
    sandbox_image: Option<String>,

    #[command(flatten)]
    cluster: ClusterArguments,
}

/// A build in the form of node labels, or the build number alone.
fn build(text: &str) -> Result<Version, String> {
    let version = match text.parse::<u16>() {
        Ok(build) => Some(Version::of_build(build)),
        Err(_) => Version::parse(text).map(Version::release),
    };
    version.ok_or_else(|| "expected a Windows build: 10.0.20348, or 20348".to_owned())
}

/// Runs `medley node-config ...`.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Command::Containerd(arguments) = &arguments.command;
    let builds: BTreeSet<Version> = if arguments.build.is_empty() {
        process::build_runtime()?.block_on(of_cluster(arguments))?
    } else {
        arguments.build.iter().copied().collect()
    };
    let sandbox = arguments.sandbox_image.as_deref();
    exit::print(&containerd::config(&builds, &arguments.arch, sandbox))
}

/// The builds of the nodes of the cluster.
async fn of_cluster(arguments: &ContainerdArguments) -> anyhow::Result<BTreeSet<Version>> {
    let api: Api<Node> = Api::all(arguments.cluster.client().await?);
    let nodes = api
        .list(&ListParams::default())
        .await
        .map_err(api_error)
        .context("listing nodes")?;
    let mut cluster = Cluster::default();
    for node in nodes {
        let node = serde_json::to_value(node).context("reading a node")?;
        cluster.upsert(placement::Node::read(&node));
    }
    let builds = windows_builds(&cluster).remove(&arguments.arch);
    builds.with_context(|| {
        format!(
            "the cluster has no Windows node on {}: name builds with --build BUILD",
            arguments.arch
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_are_parsed_in_both_forms() {
        for text in ["10.0.20348", "20348", "10.0.20348.2113"] {
            assert_eq!(build(text), Ok(Version::of_build(20348)), "{text}");
        }
        for text in ["ltsc2022", "", "10.0", "70000"] {
            assert!(build(text).is_err(), "{text}");
        }
    }
}
