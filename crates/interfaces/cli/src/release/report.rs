//! `medley release report`: reports the versions and images that an operator runs.

use ::clusteroperator_reporter::{
    Follow, OPERATOR, OPERATOR_IMAGE, OPERATOR_IMAGE_VARIABLE, RELEASE_VARIABLE, Reporter, Seen,
    Versions, Workload, WorkloadKind, Written,
};
use anyhow::{Context as _, bail};
use clap::{ArgGroup, Args};
use serde_json::{Value, json};

use crate::cluster::ClusterArguments;
use crate::governance::output::{Data, remark};
use crate::run::own_namespace;
use crate::{exit, process};

/// Report the versions and images that an operator runs to its ClusterOperator, as a sidecar of an
/// operator that does not report them itself.
///
/// Versions are reported all at once, and only when every pod of the workload runs the expected
/// images and no old pod is left; until then the previous versions stay. The environment variable
/// with the image of an operand is its name in capitals, followed by _IMAGE.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("workload").required(true).args(["deployment", "daemonset"]),
    after_help = "Examples:
  RELEASE_VERSION=4.18.0 OPERATOR_IMAGE=quay.io/x/y@sha256:... \\
    medley release report --operator dns --namespace openshift-dns-operator --deployment dns-operator
  medley release report --operator ingress --deployment ingress-operator --operand router --once -o json"
)]
pub(super) struct Arguments {
    /// The name of its ClusterOperator.
    #[arg(long, value_name = "NAME")]
    operator: String,

    /// The Deployment that the operator runs in.
    #[arg(long, value_name = "NAME")]
    deployment: Option<String>,

    /// The DaemonSet that the operator runs in.
    #[arg(long, value_name = "NAME")]
    daemonset: Option<String>,

    /// The namespace of the workload.
    /// [default: $POD_NAMESPACE, then that of the pod's service account, then medley-system]
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,

    /// The version to report as "operator".
    #[arg(long, value_name = "VERSION", env = RELEASE_VARIABLE)]
    release_version: Option<String>,

    /// The image to report as "operator-image", as in the release. Without one, only the version is
    /// reported.
    #[arg(long, value_name = "IMAGE", env = OPERATOR_IMAGE_VARIABLE)]
    operator_image: Option<String>,

    /// An operand whose image is in the environment variable NAME_IMAGE, and its version, if any,
    /// in NAME_VERSION. Can be repeated.
    #[arg(long, value_name = "NAME")]
    operand: Vec<String>,

    /// An additional version to report, such as router-image=quay.io/x/y@sha256:... Can be
    /// repeated.
    #[arg(long, value_name = "NAME=VERSION", value_parser = named)]
    report: Vec<(String, String)>,

    /// Check and report once. The exit code is 1 if the new versions cannot be reported yet.
    #[arg(long)]
    once: bool,

    /// Output format; text by default.
    #[arg(short, long, value_enum)]
    output: Option<Data>,

    #[command(flatten)]
    cluster: ClusterArguments,
}

fn named(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, version)) if !name.is_empty() && !version.is_empty() => {
            Ok((name.to_owned(), version.to_owned()))
        }
        _ => Err("expected NAME=VERSION, with neither of them empty".to_owned()),
    }
}

/// Reports once, or until SIGTERM or SIGINT.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let versions = arguments.versions()?;
    process::build_runtime()?.block_on(async {
        let stop = process::stop_signal()?;
        let client = arguments.cluster.client().await?;
        let reporter = Reporter::new(client.clone(), &arguments.operator);
        let follow = Follow::new(client, reporter, versions.clone(), arguments.workload());
        if arguments.once {
            let seen = follow.once().await?;
            exit::print(&arguments.summary(&seen, &versions)?)?;
            return check_complete(&seen, &arguments.operator);
        }
        let mut last = None;
        let keep_on = follow.run(|seen| {
            // Prints changes only; a closed standard output does not stop the reporter.
            let summary = match &seen {
                Ok(seen) => arguments
                    .summary(seen, &versions)
                    .map_err(|it| it.to_string()),
                Err(error) => Err(error.to_string()),
            };
            if last.as_ref() != Some(&summary) {
                match &summary {
                    Ok(text) => drop(exit::print(text)),
                    Err(error) => remark(&format!("warning: {error}; trying again")),
                }
                last = Some(summary);
            }
        });
        tokio::select! {
            _ = keep_on => {}
            () = stop => {}
        }
        Ok(())
    })
}

/// An error unless all versions are reported.
fn check_complete(seen: &Seen, operator: &str) -> anyhow::Result<()> {
    if seen.written == Written::NotInstalled {
        bail!(
            "the cluster has no ClusterOperators (clusteroperators.config.openshift.io): there is nothing to report to"
        );
    }
    match seen.rollout.why() {
        Some(why) => bail!("clusteroperator/{operator} is not complete: {why}"),
        None => Ok(()),
    }
}

impl Arguments {
    fn versions(&self) -> anyhow::Result<Versions> {
        let variable = |name: &str| match name {
            RELEASE_VARIABLE => self.release_version.clone(),
            OPERATOR_IMAGE_VARIABLE => self.operator_image.clone(),
            other => std::env::var(other).ok(),
        };
        let operands: Vec<&str> = self.operand.iter().map(String::as_str).collect();
        let mut versions =
            Versions::read(variable, &operands).context("determining the versions to report")?;
        for (name, version) in &self.report {
            if [OPERATOR, OPERATOR_IMAGE].contains(&name.as_str()) {
                bail!(
                    "--report {name}=...: it is given with --release-version and --operator-image"
                );
            }
            versions = versions
                .with(name, version)
                .context("determining the versions to report")?;
        }
        Ok(versions)
    }

    fn workload(&self) -> Workload {
        let (kind, name) = match (&self.deployment, &self.daemonset) {
            (Some(name), _) => (WorkloadKind::Deployment, name.clone()),
            (None, name) => (WorkloadKind::DaemonSet, name.clone().unwrap_or_default()),
        };
        Workload {
            kind,
            namespace: self.namespace.clone().unwrap_or_else(own_namespace),
            name,
        }
    }

    /// The result of one check as text or data.
    fn summary(&self, seen: &Seen, versions: &Versions) -> anyhow::Result<String> {
        let name = &self.operator;
        let arrived = seen.rollout.is_done() && seen.written != Written::NotInstalled;
        if let Some(form) = self.output {
            let reported: serde_json::Map<String, Value> = versions
                .iter()
                .map(|(name, version)| (name.to_owned(), json!(version)))
                .collect();
            let value = json!({
                "operator": name,
                "arrived": arrived,
                "missing": seen.rollout.why(),
                "written": matches!(seen.written, Written::Changed { .. }),
                "installed": seen.written != Written::NotInstalled,
                "versions": reported,
            });
            return form.write(&value);
        }
        Ok(match (&seen.written, seen.rollout.why()) {
            (Written::NotInstalled, _) => {
                format!("clusteroperator/{name} is not reported: the CRD is not installed\n")
            }
            (_, Some(why)) => format!("clusteroperator/{name} waits: {why}\n"),
            (_, None) => format!("clusteroperator/{name} reports {versions}\n"),
        })
    }
}
