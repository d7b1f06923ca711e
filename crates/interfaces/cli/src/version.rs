//! `medley version`.

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::exit;

/// The version as statuses of objects tell it.
pub(crate) const OPERATOR: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// The image of this very version, as the manifests name it.
pub(crate) use manifests::IMAGE;

/// Print the version of this program and of the Kubernetes API it serves.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Form of the output; a few lines of text if absent.
    #[arg(short, long, value_enum)]
    output: Option<Output>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Output {
    Json,
    Yaml,
}

/// Prints the versions.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let versions = versions();
    let text = match arguments.output {
        None => format!(
            "Client Version: {}\nKubernetes Version: {}\n",
            text(&versions["clientVersion"]["gitVersion"]),
            text(&versions["kubernetesVersion"]["gitVersion"]),
        ),
        Some(Output::Json) => format!("{versions:#}\n"),
        Some(Output::Yaml) => {
            serde_saphyr::to_string(&versions).context("writing the versions as YAML")?
        }
    };
    exit::print(&text)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn versions() -> Value {
    json!({
        "clientVersion": {
            "gitVersion": OPERATOR,
            "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
        },
        "kubernetesVersion": {"gitVersion": apiserver::GIT_VERSION},
    })
}
