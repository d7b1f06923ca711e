//! `medley node-config`: configuration for nodes.

use std::collections::BTreeSet;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use cluster_view::list::list;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;
use placement::runtime_classes::windows_builds;
use placement::{Cluster, containerd};
use platform::windows::Version;

use crate::cluster::ClusterArguments;
use crate::{exit, process};

/// Print configuration files for nodes.
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
/// One handler shares the kernel of the node, and each Windows build gets a Hyper-V handler. The
/// RuntimeClasses that Medley creates refer to these handlers, and `medley cri` selects images by the
/// same sections. Save the output in the directory that `imports` in containerd's configuration
/// names.
#[derive(Debug, Args)]
struct ContainerdArguments {
    /// Windows build whose images have to run, such as 10.0.17763. Can be repeated.
    /// [default: the builds of the cluster's nodes]
    #[arg(long, value_name = "BUILD", value_parser = build)]
    build: Vec<Version>,

    /// Architecture of the nodes.
    #[arg(long, value_name = "NAME", default_value = "amd64")]
    arch: String,

    /// Sandbox image, if it is not configured elsewhere.
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
    let nodes = list(&api, &ListParams::default()).await?;
    let cluster: Cluster = nodes.iter().flatten().map(placement::Node::read).collect();
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
