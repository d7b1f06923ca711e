//! `medley place explain`: which nodes can run a pod, why, and what would make it fit.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::{ArgGroup, Args};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use placement::{Explanation, explain, images};
use serde_json::{Value, json};

use super::cluster::{Offers, PlaceArguments};
use crate::governance::configs::{api_error, read};
use crate::governance::output::{Data, table};
use crate::governance::render::section;
use crate::{exit, process};

/// Explain which nodes can run a pod: the platforms of its images, the nodes that match, and what
/// would make it fit.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true))]
pub(super) struct Arguments {
    /// A pod of the cluster.
    #[arg(group = "what")]
    pod: Option<String>,

    /// A file with a pod, or with a workload that creates pods: a Deployment, a Job ... `-` reads
    /// standard input.
    #[arg(short, long, value_name = "FILE", group = "what")]
    filename: Option<PathBuf>,

    /// The namespace of the pod.
    /// [default: that of the context]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,

    #[command(flatten)]
    place: PlaceArguments,
}

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
        // clap requires one of them.
        (None, None) => bail!("nothing to explain: name a pod, or a file with -f"),
    };
    let offers = Offers::read(&client).await?;
    let used = images(&pod["spec"]).into_iter();
    let known = arguments
        .place
        .inspect_images(used.map(|used| used.image).collect())
        .await?;
    Ok(explain(
        &pod,
        &known,
        &offers.classes,
        &offers.nodes,
        &offers.settings,
    ))
}

/// A pod of the cluster without its node name: the current node must not restrict the candidates.
async fn unplaced(client: &Client, namespace: &str, name: &str) -> anyhow::Result<Value> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let mut pod = pods
        .get(name)
        .await
        .map_err(api_error)
        .with_context(|| format!("reading pod {namespace}/{name}"))?;
    if let Some(spec) = &mut pod.spec {
        spec.node_name = None;
    }
    serde_json::to_value(pod).with_context(|| format!("reading pod {namespace}/{name}"))
}

/// The pod of a file, or the one that its pod template creates.
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
            "{}: kind {other:?} does not create pods; expected a Pod, Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob or ReplicationController",
            what()
        ),
    };
    let pod = object.pointer(template).cloned();
    pod.with_context(|| format!("{}: {kind} has no {template}", what()))
}

fn render(result: &Explanation) -> anyhow::Result<String> {
    let mut text = format!("{}: {}\n", result.decision, result.summary);
    text.push_str(&section("Images", &result.images));
    let rows = result.places.iter().map(|place| {
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
    let remedies: Vec<String> = result.remedies.iter().map(ToString::to_string).collect();
    text.push_str(&section("What would make it fit", &remedies));
    if let Some(change) = &result.change {
        let change = Data::Yaml.write(change)?;
        let lines: Vec<String> = change.lines().map(ToOwned::to_owned).collect();
        text.push_str(&section("Changes to the pod", &lines));
    }
    Ok(text)
}
