//! `medley version`.

use clap::Args;
use serde_json::{Value, json};

use crate::output::OutputArguments;

/// The version in status fields of objects.
pub(crate) const OPERATOR: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// The image of this version, as in the manifests.
pub(crate) use manifests::IMAGE;

/// Print the version of this program, and of Kubernetes in the embedded API server.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    output: OutputArguments,
}

/// Prints the versions.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let versions = versions();
    arguments.output.print(&versions, || lines(&versions))
}

fn lines(versions: &Value) -> String {
    let named = [
        ("Client Version", "clientVersion"),
        ("Kubernetes Version", "kubernetesVersion"),
    ];
    let line = |(name, field): (&str, &str)| {
        let version = versions[field]["gitVersion"].as_str()?;
        Some(format!("{name}: {version}\n"))
    };
    named.into_iter().filter_map(line).collect()
}

fn versions() -> Value {
    let mut versions = json!({
        "clientVersion": {
            "gitVersion": OPERATOR,
            "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
        },
    });
    if let Some(version) = EMBEDDED_KUBERNETES {
        versions["kubernetesVersion"] = json!({ "gitVersion": version });
    }
    versions
}

/// The version of the Kubernetes API that the embedded server serves, in builds that contain it.
const EMBEDDED_KUBERNETES: Option<&str> = {
    #[cfg(feature = "lab")]
    {
        Some(apiserver::GIT_VERSION)
    }
    #[cfg(not(feature = "lab"))]
    {
        None
    }
};
