//! `medley profile render`: what a profile would request.

use std::fmt::Write as _;
use std::path::PathBuf;

use ::governance::Profile as _;
use ::governance::profile::data::objects;
use anyhow::{Context as _, anyhow};
use api::advisor::ProfileOptions;
use api::rbac::cluster_role;
use clap::Args;
use controllers::governance::cluster;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::source::ProfileArguments;
use crate::cluster::ClusterArguments;
use crate::{exit, process, read};

/// Show the objects that a profile would apply, before dry runs; or the ClusterRole that the operator needs for it.
///
/// The objects that the profile reads come from the cluster, or from a file. Nothing is written.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    profile: ProfileArguments,

    /// Options as YAML, such as `{size: 3}`.
    #[arg(long, value_name = "YAML", conflicts_with = "rbac")]
    options: Option<String>,

    /// File with the objects that the profile reads, instead of those of the cluster: YAML documents, or a List.
    #[arg(long, value_name = "FILE", conflicts_with = "rbac")]
    from: Option<PathBuf>,

    /// Write a ClusterRole with the permissions that the operator needs, and a binding of it.
    #[arg(long)]
    rbac: bool,

    /// Namespace of the operator, for --rbac.
    #[arg(long, value_name = "NAME", default_value = "medley-system")]
    operator_namespace: String,

    #[command(flatten)]
    cluster: ClusterArguments,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    process::build_runtime()?.block_on(async {
        let (object, profile) = arguments.profile.compiled().await?;
        if arguments.rbac {
            let namespace = &arguments.operator_namespace;
            return exit::print(&rbac(&object.name_any(), profile.rules(), namespace)?);
        }
        let values = match &arguments.options {
            Some(text) => serde_saphyr::from_str(text).context("reading --options")?,
            None => None,
        };
        let options = ProfileOptions {
            values,
            ..ProfileOptions::default()
        };
        let snapshot = match &arguments.from {
            Some(path) => {
                let what = || format!("reading objects from {}", path.display());
                let found = serde_saphyr::from_multiple::<Value>(&read::file(path)?);
                objects::snapshot(profile.uses(), found.with_context(what)?)
                    .map_err(|error| anyhow!("{}: {error}", what()))?
            }
            None => cluster::look(&arguments.cluster.client().await?, profile.uses()).await?,
        };
        let intents = profile.intents(&options, &snapshot)?;
        let mut text = String::new();
        for item in &intents.items {
            write!(
                text,
                "---\n# {} (impact {}): {}\n{}",
                item.name,
                item.impact,
                item.message,
                serde_saphyr::to_string(&item.desired)?
            )?;
        }
        for warning in &intents.warnings {
            writeln!(text, "# Warning: {warning}")?;
        }
        exit::print(&text)
    })
}

/// The ClusterRole that the operator needs, with its binding.
fn rbac(
    name: &str,
    rules: Vec<k8s_openapi::api::rbac::v1::PolicyRule>,
    namespace: &str,
) -> anyhow::Result<String> {
    let name = format!("medley-profile:{name}");
    let mut role = serde_json::to_value(cluster_role(&name, rules))?;
    role["apiVersion"] = json!("rbac.authorization.k8s.io/v1");
    role["kind"] = json!("ClusterRole");
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name },
        "subjects": [{ "kind": "ServiceAccount", "name": manifests::ACCOUNT, "namespace": namespace }],
    });
    let texts = [role, binding].map(|object| serde_saphyr::to_string(&object));
    let [role, binding] = texts;
    Ok(format!("{}---\n{}", role?, binding?))
}
