//! `medley place explain`: where a pod can run, why, and what would make it fit.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::{ArgGroup, Args};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use placement::{Explanation, explain, images};
use serde_json::{Value, json};

use super::cluster::{Offers, PlaceArguments};
use crate::governance::configs::{read, said};
use crate::governance::output::{Data, table};
use crate::governance::render::section;
use crate::{exit, process};

/// Explain where a pod can run: what its images are for, which nodes run them, and what would make it
/// fit.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true))]
pub(super) struct Arguments {
    /// A pod of the cluster.
    #[arg(group = "what")]
    pod: Option<String>,

    /// A file with a pod, or with something that makes pods: a Deployment, a Job ... `-` is standard
    /// input.
    #[arg(short, long, value_name = "FILE", group = "what")]
    filename: Option<PathBuf>,

    /// The namespace of the pod.
    /// [default: that of the context]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,

    #[command(flatten)]
    place: PlaceArguments,
}

/// Explains.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let explanation = process::build_runtime()?.block_on(explained(arguments))?;
    if let Some(data) = arguments.place.output {
        return exit::print(&data.write(&json!(explanation))?);
    }
    exit::print(&render(&explanation)?)
}

async fn explained(arguments: &Arguments) -> anyhow::Result<Explanation> {
    let client = arguments.place.client().await?;
    let pod = match (&arguments.pod, &arguments.filename) {
        (Some(name), _) => {
            let namespace = arguments.namespace.as_deref();
            let namespace = namespace.unwrap_or_else(|| client.default_namespace());
            unplaced(&client, namespace, name).await?
        }
        (None, Some(path)) => of_file(path)?,
        // clap asks for one of them.
        (None, None) => bail!("nothing to explain: name a pod, or a file with -f"),
    };
    let offers = Offers::read(&client).await?;
    let used = images(&pod["spec"]).into_iter();
    let known = arguments
        .place
        .look(used.map(|used| used.image).collect())
        .await?;
    Ok(explain(
        &pod,
        &known,
        &offers.classes,
        &offers.nodes,
        &offers.settings,
    ))
}

/// A pod of the cluster as if it had no node yet: where it is says nothing about where it could be.
async fn unplaced(client: &Client, namespace: &str, name: &str) -> anyhow::Result<Value> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let mut pod = pods
        .get(name)
        .await
        .map_err(said)
        .with_context(|| format!("reading pod {namespace}/{name}"))?;
    if let Some(spec) = &mut pod.spec {
        spec.node_name = None;
    }
    serde_json::to_value(pod).with_context(|| format!("reading pod {namespace}/{name}"))
}

/// The pod of a file, or the one that would be made from it.
fn of_file(path: &Path) -> anyhow::Result<Value> {
    let what = || format!("reading {}", path.display());
    let object: Value = serde_saphyr::from_str(&read(path)?).with_context(what)?;
    let kind = object
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let template = match kind {
        "Pod" => return Ok(object),
        "CronJob" => "/spec/jobTemplate/spec/template",
        "Deployment"
        | "ReplicaSet"
        | "StatefulSet"
        | "DaemonSet"
        | "Job"
        | "ReplicationController" => "/spec/template",
        other => bail!(
            "{}: kind {other:?} makes no pods; a Pod, Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob or ReplicationController is accepted",
            what()
        ),
    };
    let pod = object.pointer(template).cloned();
    pod.with_context(|| format!("{}: {kind} has no {template}", what()))
}

fn render(told: &Explanation) -> anyhow::Result<String> {
    let mut text = format!("{}: {}\n", told.decision, told.summary);
    text.push_str(&section("Images", &told.images));
    let rows = told.places.iter().map(|place| {
        [
            place.place.clone(),
            place.nodes.to_string(),
            if place.runs { "yes" } else { "no" }.to_owned(),
            place.why.join("; "),
        ]
    });
    let rows = table(["NODES", "COUNT", "RUNS", "WHY NOT"], rows.collect());
    text.push('\n');
    text.push_str(&rows);
    let remedies: Vec<String> = told.remedies.iter().map(ToString::to_string).collect();
    text.push_str(&section("What would make it fit", &remedies));
    if let Some(change) = &told.change {
        let change = Data::Yaml.write(change)?;
        let lines: Vec<String> = change.lines().map(ToOwned::to_owned).collect();
        text.push_str(&section("The pod would say", &lines));
    }
    Ok(text)
}
