//! Access to configurations and profiles, and unwrapped API errors.

pub(crate) use ::governance::answer::list_valid_names;
use ::governance::profile::node_health::NodeHealthRemediation;
use ::governance::{Profile as _, Registry};
use anyhow::{Context as _, anyhow};
use edits::Configs;
use kube::Client;

/// Field manager of spec changes.
pub(crate) const MANAGER: &str = "medley-cli";

/// Every built-in profile. The objects in the cluster show which of them the operator has enabled.
pub(crate) fn registry() -> anyhow::Result<Registry> {
    Ok(Registry::standard(&[NodeHealthRemediation.about().name])?)
}

/// The configurations of a cluster.
pub(crate) fn configs(client: &Client) -> Configs {
    Configs::new(client, MANAGER)
}

/// The message of the API server, without kube's wrapping.
pub(crate) fn api_error(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) => anyhow!("{}", status.message),
        other => anyhow::Error::new(other),
    }
}

/// Reads a file, or standard input for `-`.
pub(crate) fn read(path: &std::path::Path) -> anyhow::Result<String> {
    if path.as_os_str() == "-" {
        return std::io::read_to_string(std::io::stdin()).context("reading standard input");
    }
    std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}
