//! `medley release verify`: proves that nodes of another architecture can join.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ::release_migration::verify::{JoinedNode, Proof, VerifyInputs, verify};
use anyhow::{Context as _, bail};
use clap::Args;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Client, ResourceExt as _};
use machinery::time::{human_duration, parse_duration};
use platform::known_architecture;
use serde_json::{Value, json};

use super::cluster::{ReleaseArguments, list};
use crate::output::{OutputArguments, remark};
use crate::read::{self, namespaced, scoped};
use crate::{exit, process};

/// Poll interval.
const INTERVAL: Duration = Duration::from_secs(1);
/// Exit code if the migration is not complete, so that verification did not start.
const NOT_COMPLETE: u8 = 2;

/// Verify that a node of a new architecture can join a cluster that was migrated to multi-arch.
///
/// Fails if the migration is not complete, according to the versions that operators report and the
/// images that their pods run. Otherwise waits for a node that was created after completion and has
/// an architecture that no node had before, until the node is Ready and the machine-config daemon
/// runs on it. Create such a node in the meantime, with a MachineSet or, in a cluster of `medley up`,
/// with `medley fleet add`.
///
/// The exit code is 0 on success, 1 on timeout, and 2 if the migration is not complete.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// How long to wait for the node.
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = duration)]
    node_timeout: Duration,

    /// Architecture of the node.
    /// [default: any that no node had before]
    #[arg(long, value_name = "ARCH", value_parser = architecture)]
    arch: Option<String>,

    /// DaemonSet whose pod has to run on the node.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = namespaced)]
    #[arg(default_value = "openshift-machine-config-operator/machine-config-daemon")]
    daemon: (String, String),

    #[command(flatten)]
    output: OutputArguments,

    #[command(flatten)]
    release: ReleaseArguments,
}

fn duration(text: &str) -> Result<Duration, String> {
    let read = parse_duration(text).ok();
    read.and_then(|it| Duration::try_from(it).ok())
        .ok_or_else(|| "expected a duration of zero or more, such as 15m or 90s".to_owned())
}

fn architecture(text: &str) -> Result<String, String> {
    let known = known_architecture(text);
    known.map(str::to_owned).ok_or_else(|| {
        "expected an architecture such as amd64, arm64, s390x, ppc64le or riscv64".to_owned()
    })
}

/// A release that a cluster has completed.
struct Complete {
    target: String,
    completed: Timestamp,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let proving = async {
        let client = arguments.release.client().await?;
        match complete(arguments).await? {
            Ok(complete) => prove(arguments, &client, &complete).await.map(Ok),
            Err(refusal) => Ok(Err(refusal)),
        }
    };
    match process::build_runtime().and_then(|runtime| runtime.block_on(proving)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(refusal)) => exit::failure(&refusal, NOT_COMPLETE),
        Err(error) => exit::failure(&error, 1),
    }
}

/// Whether the cluster has completed a release, by Medley's evaluation.
async fn complete(arguments: &Arguments) -> anyhow::Result<Result<Complete, anyhow::Error>> {
    let read = arguments.release.read().await?;
    let report = read.report();
    let target = report.control_plane.target.text.clone();
    if read.is_for_one() {
        let why = format!(
            "the release that the cluster runs, {target}, is for one architecture, so nothing can be verified; `medley release migrate --to-multi-arch` requests another"
        );
        return Ok(Err(anyhow::Error::msg(why)));
    }
    if !report.is_complete(false) {
        let mut why = format!(
            "the cluster has not completed {target} yet, so nothing can be verified: it is {}",
            report.control_plane.assessment.word()
        );
        if !report.control_plane.updating.is_empty() {
            let _ = write!(
                why,
                ", waiting on {}",
                report.control_plane.updating.join(", ")
            );
        }
        let value = json!({
            "complete": false,
            "proven": false,
            "target": target,
            "assessment": report.control_plane.assessment.word(),
            "updating": report.control_plane.updating,
        });
        arguments.output.print(&value, String::new)?;
        return Ok(Err(anyhow::Error::msg(why)));
    }
    let completed = report
        .control_plane
        .completed
        .context("the ClusterVersion does not record when the release was complete")?;
    Ok(Ok(Complete { target, completed }))
}

async fn prove(arguments: &Arguments, client: &Client, complete: &Complete) -> anyhow::Result<()> {
    let started = Instant::now();
    let mut last_printed = None;
    loop {
        // Before the timeout is tested, so that `--node-timeout 0` reports the current state.
        let proof = poll(arguments, client, complete.completed).await?;
        let waited = started.elapsed();
        let value = value(complete, &proof, waited)?;
        if let Some(proven) = proof.proven() {
            let text = || rendered(complete, &proof, proven);
            return arguments.output.print(&value, text);
        }
        if waited >= arguments.node_timeout {
            arguments.output.print(&value, String::new)?;
            let limit = SignedDuration::try_from(arguments.node_timeout).unwrap_or_default();
            let limit = human_duration(limit);
            bail!("not proven within {limit}: {}", missing(arguments, &proof));
        }
        // Prints what it waits for whenever that changes.
        let waiting = missing(arguments, &proof);
        if last_printed.as_ref() != Some(&waiting) {
            remark(&format!("waiting: {waiting}"));
            last_printed = Some(waiting);
        }
        tokio::time::sleep(INTERVAL.min(arguments.node_timeout.saturating_sub(waited))).await;
    }
}

async fn poll(
    arguments: &Arguments,
    client: &Client,
    completed: Timestamp,
) -> anyhow::Result<Proof> {
    let nodes: Vec<Node> = list(client).await?;
    let (namespace, name) = &arguments.daemon;
    let daemons = scoped::<DaemonSet>(client, Some(namespace));
    let pods = match read::get(&daemons, name).await? {
        None => None,
        Some(daemons) => {
            let mut found: Vec<Pod> = read::list(&scoped(client, Some(namespace))).await?;
            let uid = daemons.uid();
            // By owner and not by labels, which pods of another DaemonSet may share.
            found.retain(|pod| {
                let mut owners = pod.owner_references().iter();
                owners.any(|owner| Some(&owner.uid) == uid.as_ref())
            });
            Some(found)
        }
    };
    Ok(verify(&VerifyInputs {
        completed,
        architecture: arguments.arch.as_deref(),
        nodes: &nodes,
        daemons: pods.as_deref(),
    }))
}

/// What it waits for.
fn missing(arguments: &Arguments, proof: &Proof) -> String {
    if let Some(joined) = proof.joined.first() {
        let why = joined.missing.as_deref().unwrap_or_default();
        return format!("node {} ({}): {why}", joined.node, joined.architecture);
    }
    match &arguments.arch {
        Some(arch) => format!("no node of {arch} has joined since completion"),
        None => format!(
            "no node of another architecture than {} has joined since completion",
            proof.before.join(", ")
        ),
    }
}

fn value(complete: &Complete, proof: &Proof, waited: Duration) -> anyhow::Result<Value> {
    let mut value = serde_json::to_value(proof).context("writing the result")?;
    let took = proof.proven().and_then(JoinedNode::took);
    value["complete"] = json!(true);
    value["proven"] = json!(proof.proven().is_some());
    value["target"] = json!(complete.target);
    value["completed"] = json!(complete.completed);
    value["waitedSeconds"] = json!(waited.as_secs());
    value["tookSeconds"] = json!(took.map(|it| it.as_secs()));
    Ok(value)
}

fn rendered(complete: &Complete, proof: &Proof, proven: &JoinedNode) -> String {
    let after = |time: Timestamp, from: Timestamp| human_duration(time.duration_since(from));
    let architecture = &proven.architecture;
    let ready = proven.ready.map_or_else(String::new, |ready| {
        format!("Ready:        after {}\n", after(ready, proven.joined))
    });
    let daemon = match &proven.daemon {
        Some(it) => format!("pod {} after {}", it.pod, after(it.ready, proven.joined)),
        None => "not found".to_owned(),
    };
    format!(
        "Release:      {}, complete since {}\n\
         Before:       {}\n\
         Joined:       node {} ({architecture}), {} after completion\n\
         {ready}\
         DaemonSet:    {daemon}\n\
         Nodes of {architecture} can join\n",
        complete.target,
        complete.completed,
        proof.before.join(", "),
        proven.node,
        after(proven.joined, complete.completed),
    )
}
