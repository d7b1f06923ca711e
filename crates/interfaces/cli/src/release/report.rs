//! `medley release report`: reports the versions and images that an operator runs.

use ::clusteroperator_reporter::{
    Follow, OPERATOR, OPERATOR_IMAGE, OPERATOR_IMAGE_VARIABLE, RELEASE_VARIABLE, Reporter, Seen,
    Versions, Workload, WorkloadKind, Written,
};
use anyhow::{Context as _, bail};
use clap::{ArgGroup, Args};
use serde_json::{Value, json};

use crate::cluster::ClusterArguments;
use crate::output::{OutputArguments, remark};
use crate::service::own_namespace;
use crate::{exit, process};

/// Report the versions and images that an operator runs to its ClusterOperator.
///
/// Runs as a sidecar of an operator that does not report them itself. Reports all versions at once,
/// when every pod of the workload runs the expected images and no old pod is left; until then, the
/// ClusterOperator keeps the previous versions. The environment variable with the image of an
/// operand is the operand's name in upper case, followed by _IMAGE.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("workload").required(true).args(["deployment", "daemonset"]))]
pub(super) struct Arguments {
    /// Name of the operator's ClusterOperator.
    #[arg(long, value_name = "NAME")]
    operator: String,

    /// Deployment that the operator runs in.
    #[arg(long, value_name = "NAME")]
    deployment: Option<String>,

    /// DaemonSet that the operator runs in.
    #[arg(long, value_name = "NAME")]
    daemonset: Option<String>,

    /// Namespace of the workload.
    /// [default: $POD_NAMESPACE, then that of the pod's service account, then medley-system]
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,

    /// Version to report as "operator".
    #[arg(long, value_name = "VERSION", env = RELEASE_VARIABLE)]
    release_version: Option<String>,

    /// Image to report as "operator-image", as in the release.
    /// [default: report only the version]
    #[arg(long, value_name = "IMAGE", env = OPERATOR_IMAGE_VARIABLE)]
    operator_image: Option<String>,

    /// Operand whose image is in the environment variable NAME_IMAGE, and whose version, if any, is
    /// in NAME_VERSION. Can be repeated.
    #[arg(long, value_name = "NAME")]
    operand: Vec<String>,

    /// Additional version to report, such as router-image=quay.io/x/y@sha256:... Can be repeated.
    #[arg(long, value_name = "NAME=VERSION", value_parser = named)]
    report: Vec<(String, String)>,

    /// Check and report once; exit with 1 if the new versions cannot be reported yet.
    #[arg(long)]
    once: bool,

    #[command(flatten)]
    output: OutputArguments,

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
                bail!("--report {name}=...: use --release-version and --operator-image for it");
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
        let installed = seen.written != Written::NotInstalled;
        let reported = versions.iter();
        let reported = reported.map(|(name, version)| (name.to_owned(), json!(version)));
        let value = json!({
            "operator": name,
            "arrived": seen.rollout.is_done() && installed,
            "missing": seen.rollout.why(),
            "written": matches!(seen.written, Written::Changed { .. }),
            "installed": installed,
            "versions": reported.collect::<serde_json::Map<String, Value>>(),
        });
        self.output.write(&value, || match seen.rollout.why() {
            _ if !installed => {
                format!("clusteroperator/{name} is not reported: the CRD is not installed\n")
            }
            Some(why) => format!("clusteroperator/{name} waits: {why}\n"),
            None => format!("clusteroperator/{name} reports {versions}\n"),
        })
    }
}
