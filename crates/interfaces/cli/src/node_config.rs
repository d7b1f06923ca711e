//! `medley node-config`: what has to be configured on nodes.

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
use crate::governance::configs::said;
use crate::{exit, process};

/// Print what has to be configured on nodes.
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
/// There is one that shares the kernel of the node, and one of Hyper-V for each build of Windows. The
/// RuntimeClasses that Medley makes name them, and `medley cri` chooses images by the same sections. It is
/// a file for the folder that `imports` of containerd's configuration names.
#[derive(Debug, Args)]
struct ContainerdArguments {
    /// A build of Windows (10.0.17763) whose images are to run. Can be given several times; no cluster is
    /// asked then.
    /// [default: the builds of the nodes of the cluster]
    #[arg(long, value_name = "BUILD", value_parser = build)]
    build: Vec<Version>,

    /// The architecture of the nodes.
    #[arg(long, value_name = "NAME", default_value = "amd64")]
    arch: String,

    /// The image of sandboxes, if it is not the one that is configured elsewhere.
    #[arg(long, value_name = "IMAGE")]
    sandbox_image: Option<String>,

    #[command(flatten)]
    cluster: ClusterArguments,
}

/// A build as labels have it, or the number alone.
fn build(text: &str) -> Result<Version, String> {
    let version = match text.parse::<u16>() {
        Ok(build) => Some(Version::of_build(build)),
        Err(_) => Version::parse(text).map(Version::release),
    };
    version.ok_or_else(|| "a build of Windows is expected: 10.0.20348, or 20348".to_owned())
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
        .map_err(said)
        .context("listing nodes")?;
    let mut cluster = Cluster::default();
    for node in nodes {
        let node = serde_json::to_value(node).context("reading a node")?;
        cluster.upsert(placement::Node::read(&node));
    }
    let builds = windows_builds(&cluster).remove(&arguments.arch);
    builds.with_context(|| {
        format!(
            "the cluster has no node with Windows on {}: name builds with --build BUILD",
            arguments.arch
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_are_read_as_labels_have_them_and_as_people_say_them() {
        for text in ["10.0.20348", "20348", "10.0.20348.2113"] {
            assert_eq!(build(text), Ok(Version::of_build(20348)), "{text}");
        }
        for text in ["ltsc2022", "", "10.0", "70000"] {
            assert!(build(text).is_err(), "{text}");
        }
    }
}
