//! Which configurations and profiles there are, and what servers say.

pub(crate) use ::governance::answer::there_are;
use ::governance::profile::node_health::NodeHealthRemediation;
use ::governance::{Profile as _, Registry};
use anyhow::{Context as _, anyhow};
use edits::Configs;
use kube::Client;

/// Who changes specifications, in `managedFields`.
pub(crate) const MANAGER: &str = "medley-cli";

/// Every profile there is. Which of them the operator has switched on shows in the objects there are.
pub(crate) fn registry() -> anyhow::Result<Registry> {
    Ok(Registry::standard(&[NodeHealthRemediation.about().name])?)
}

/// The configurations of a cluster.
pub(crate) fn configs(client: &Client) -> Configs {
    Configs::new(client, MANAGER)
}

/// What the server said, without the wrapping.
pub(crate) fn said(error: kube::Error) -> anyhow::Error {
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
