//! `medley release report`: says for an operator which versions and images it truly runs.

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

/// Report to a ClusterOperator which versions and images an operator truly runs, beside an operator that
/// does not do so itself.
///
/// Versions are reported all at once, and only when every pod of the workload runs what it should and no old
/// one is left; until then those from before stay. The variable of the image of an operand is its name in
/// capitals, with _IMAGE behind it.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("workload").required(true).args(["deployment", "daemonset"]),
    after_help = "Examples:
  RELEASE_VERSION=4.18.0 OPERATOR_IMAGE=quay.io/x/y@sha256:... \\
    medley release report --operator dns --namespace openshift-dns-operator --deployment dns-operator
  medley release report --operator ingress --deployment ingress-operator --operand router --once -o json"
)]
pub(super) struct Arguments {
    /// The operator, as its ClusterOperator is called.
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

    /// The version that is reported as "operator".
    #[arg(long, value_name = "VERSION", env = RELEASE_VARIABLE)]
    release_version: Option<String>,

    /// The image that is reported as "operator-image", as the release writes it. Without one, the version
    /// alone is reported.
    #[arg(long, value_name = "IMAGE", env = OPERATOR_IMAGE_VARIABLE)]
    operator_image: Option<String>,

    /// An operand whose image is in the variable NAME_IMAGE, and its version, if it has one, in
    /// NAME_VERSION. Can be given several times.
    #[arg(long, value_name = "NAME")]
    operand: Vec<String>,

    /// Something else to report, such as router-image=quay.io/x/y@sha256:... Can be given several times.
    #[arg(long, value_name = "NAME=VERSION", value_parser = named)]
    report: Vec<(String, String)>,

    /// Look and report once. The exit code is 1 if the new versions may not be reported yet.
    #[arg(long)]
    once: bool,

    /// Form of the output; text if absent.
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

/// Reports once, or until it is asked to stop.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let versions = arguments.versions()?;
    process::build_runtime()?.block_on(async {
        let stop = process::stop_signal()?;
        let client = arguments.cluster.client().await?;
        let reporter = Reporter::new(client.clone(), &arguments.operator);
        let follow = Follow::new(client, reporter, versions.clone(), arguments.workload());
        if arguments.once {
            let seen = follow.once().await?;
            exit::print(&arguments.told(&seen, &versions)?)?;
            return judged(&seen, &arguments.operator);
        }
        let mut last = None;
        let keep_on = follow.run(|seen| {
            // Nothing is said twice; that nobody listens is no reason to stop.
            let told = match &seen {
                Ok(seen) => arguments.told(seen, &versions).map_err(|it| it.to_string()),
                Err(error) => Err(error.to_string()),
            };
            if last.as_ref() != Some(&told) {
                match &told {
                    Ok(text) => drop(exit::print(text)),
                    Err(error) => remark(&format!("warning: {error}; trying again")),
                }
                last = Some(told);
            }
        });
        tokio::select! {
            _ = keep_on => {}
            () = stop => {}
        }
        Ok(())
    })
}

/// Whether it is as it should be.
fn judged(seen: &Seen, operator: &str) -> anyhow::Result<()> {
    if seen.written == Written::NotInstalled {
        bail!(
            "the cluster has no ClusterOperators (clusteroperators.config.openshift.io): there is nobody to report to"
        );
    }
    match seen.rollout.why() {
        Some(why) => bail!("clusteroperator/{operator} has not arrived: {why}"),
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
            Versions::read(variable, &operands).context("finding out what to report")?;
        for (name, version) in &self.report {
            if [OPERATOR, OPERATOR_IMAGE].contains(&name.as_str()) {
                bail!(
                    "--report {name}=...: it is given with --release-version and --operator-image"
                );
            }
            versions = versions
                .with(name, version)
                .context("finding out what to report")?;
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

    /// What came of a look.
    fn told(&self, seen: &Seen, versions: &Versions) -> anyhow::Result<String> {
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
                format!("clusteroperator/{name} is not reported: the kind is not installed\n")
            }
            (_, Some(why)) => format!("clusteroperator/{name} waits: {why}\n"),
            (_, None) => format!("clusteroperator/{name} reports {versions}\n"),
        })
    }
}
