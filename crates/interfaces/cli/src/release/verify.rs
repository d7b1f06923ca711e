//! `medley release verify`: proves that nodes of another architecture can join.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ::release_migration::verify::{Joined, Proof, VerifyInputs, verify};
use anyhow::{Context as _, bail};
use clap::Args;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use machinery::time::{human_duration, parse_duration};
use platform::known_architecture;
use serde_json::{Value, json};

use super::cluster::{ReleaseArguments, list};
use crate::governance::configs::api_error;
use crate::governance::output::{Data, remark};
use crate::{exit, process};

/// Poll interval.
const INTERVAL: Duration = Duration::from_secs(1);
/// Exit code if the migration is not complete, so that verification did not start.
const NOT_COMPLETE: u8 = 2;

/// Prove that a node of another architecture can join a cluster that was migrated to multi-arch.
///
/// Fails while the migration is not complete, by what operators report and pods run. Then waits for
/// a node that was created after completion and has an architecture that no node had before, until
/// it is ready and the machine-config daemon runs there. Create one meanwhile: with a MachineSet,
/// or in a cluster of `medley up` with `medley fleet add`.
///
/// The exit code is 0 if it is proven, 1 on timeout, and 2 if the migration is not complete.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  medley release verify
  medley release verify --arch s390x --node-timeout 30m -o json")]
pub(super) struct Arguments {
    /// How long to wait for a node.
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = duration)]
    node_timeout: Duration,

    /// The expected architecture.
    /// [default: any that no node had before]
    #[arg(long, value_name = "ARCH", value_parser = architecture)]
    arch: Option<String>,

    /// The machine-config DaemonSet that has to run on the node.
    #[arg(
        long,
        value_name = "NAMESPACE/NAME",
        default_value = "openshift-machine-config-operator/machine-config-daemon",
        value_parser = namespaced
    )]
    daemon: (String, String),

    /// Output format; text by default.
    #[arg(short, long, value_enum)]
    output: Option<Data>,

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

fn namespaced(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        _ => Err("expected NAMESPACE/NAME".to_owned()),
    }
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
        if let Some(form) = arguments.output {
            let value = json!({
                "complete": false,
                "proven": false,
                "target": target,
                "assessment": report.control_plane.assessment.word(),
                "updating": report.control_plane.updating,
            });
            exit::print(&form.write(&value)?)?;
        }
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
        let proof = poll(arguments, client, complete.completed).await?;
        let waited = started.elapsed();
        if let Some(proven) = proof.proven() {
            let text = match arguments.output {
                Some(form) => form.write(&value(complete, &proof, waited)?)?,
                None => rendered(complete, &proof, proven),
            };
            return exit::print(&text);
        }
        if waited >= arguments.node_timeout {
            if let Some(form) = arguments.output {
                exit::print(&form.write(&value(complete, &proof, waited)?)?)?;
            }
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
    let nodes: Vec<Node> = list(client, "Nodes").await?;
    let (namespace, name) = &arguments.daemon;
    let what = || format!("reading DaemonSet {namespace}/{name}");
    let api: Api<DaemonSet> = Api::namespaced(client.clone(), namespace);
    let there = api.get_opt(name).await;
    let there = there.map_err(|error| api_error(error).context(what()))?;
    let pods = match &there {
        None => None,
        Some(daemons) => {
            let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
            let found = api.list(&ListParams::default()).await;
            let mut found = found
                .map_err(|error| api_error(error).context(what()))?
                .items;
            let uid = daemons.uid();
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
    let took = proof.proven().and_then(Joined::took);
    value["complete"] = json!(true);
    value["proven"] = json!(proof.proven().is_some());
    value["target"] = json!(complete.target);
    value["completed"] = json!(complete.completed);
    value["waitedSeconds"] = json!(waited.as_secs());
    value["tookSeconds"] = json!(took.map(|it| it.as_secs()));
    Ok(value)
}

fn rendered(complete: &Complete, proof: &Proof, proven: &Joined) -> String {
    let after = |time: Timestamp, from: Timestamp| human_duration(time.duration_since(from));
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "Release:      {}, complete since {}",
        complete.target, complete.completed
    );
    let _ = writeln!(text, "Before:       {}", proof.before.join(", "));
    let _ = writeln!(
        text,
        "Joined:       node {} ({}), {} after completion",
        proven.node,
        proven.architecture,
        after(proven.joined, complete.completed)
    );
    if let Some(ready) = proven.ready {
        let _ = writeln!(text, "Ready:        after {}", after(ready, proven.joined));
    }
    match &proven.daemon {
        Some(daemon) => {
            let _ = writeln!(
                text,
                "DaemonSet:    pod {} after {}",
                daemon.pod,
                after(daemon.ready, proven.joined)
            );
        }
        None => text.push_str("DaemonSet:    not found\n"),
    }
    let _ = writeln!(text, "Nodes of {} can join", proven.architecture);
    text
}
