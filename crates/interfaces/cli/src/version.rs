//! `medley version`: versions of this program, and of what runs in the cluster.

mod server;

use std::fmt::Write as _;

use clap::Args;
use serde_json::{Value, json};

use crate::cluster::ClusterArguments;
use crate::output::{OutputArguments, remark};
use crate::process;

/// The version in status fields of objects.
pub(crate) const OPERATOR: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// The image of this version, as in the manifests.
pub(crate) use manifests::IMAGE;

/// Print the versions of this program, and of Kubernetes, the operator, the webhook and the CRDs in
/// the cluster.
///
/// A version skew that is not supported is printed as a warning. The exit code is 1 if the cluster
/// cannot be reached, unless you use --client.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Print only the version of this program; no cluster is needed.
    #[arg(long)]
    client: bool,

    /// Namespace of the operator. Other namespaces are searched if it is not there.
    #[arg(long, value_name = "NAME", default_value = manifests::NAMESPACE)]
    operator_namespace: String,

    #[command(flatten)]
    output: OutputArguments,

    #[command(flatten)]
    cluster: ClusterArguments,
}

/// Prints the versions.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut versions = versions();
    if arguments.client {
        return arguments.output.print(&versions, || lines(&versions));
    }
    let found = process::build_runtime()?.block_on(async {
        let client = arguments.cluster.client().await?;
        server::read(&client, &arguments.operator_namespace).await
    });
    let read = match found {
        Ok(found) => {
            for warning in found.warnings(OPERATOR) {
                remark(&format!("warning: {warning}"));
            }
            found.add_to(&mut versions, OPERATOR);
            Ok(())
        }
        // The version of the client is printed nevertheless, as by kubectl.
        Err(error) => Err(error.context("reading the versions in the cluster")),
    };
    arguments.output.print(&versions, || lines(&versions))?;
    read
}

fn lines(versions: &Value) -> String {
    let text = |pointer: &str| match versions.pointer(pointer) {
        Some(Value::String(text)) => Some(text.clone()).filter(|it| !it.is_empty()),
        Some(Value::Array(items)) => {
            let names: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            Some(names.join(", ")).filter(|it| !it.is_empty())
        }
        _ => None,
    };
    let named = [
        ("Client Version", "/clientVersion/gitVersion"),
        ("Kubernetes Version", "/kubernetesVersion/gitVersion"),
        ("Server Version", "/serverVersion/gitVersion"),
        ("Operator Version", "/operator/version"),
        ("Operator Namespace", "/operator/namespace"),
        ("Operator Image", "/operator/image"),
        ("Operator Leader", "/operator/leader"),
        ("Operator Controllers", "/operator/controllers"),
        ("Operator State", "/operator/state"),
        ("Webhook Version", "/webhook/version"),
        ("Webhook Image", "/webhook/image"),
    ];
    let mut lines: String = named
        .into_iter()
        .filter_map(|(name, pointer)| Some(format!("{name}: {}\n", text(pointer)?)))
        .collect();
    let definitions = versions["customResourceDefinitions"].as_array();
    let definitions: Vec<String> = definitions
        .into_iter()
        .flatten()
        .filter_map(|it| {
            let served = it["versions"].as_array()?.iter();
            let served: Vec<&str> = served.filter_map(Value::as_str).collect();
            Some(format!("{}/{}", it["name"].as_str()?, served.join(",")))
        })
        .collect();
    if !definitions.is_empty() {
        let _ = writeln!(lines, "CRD Versions: {}", definitions.join(" "));
    }
    lines
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
