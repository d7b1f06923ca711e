//! `medley place explain`: which nodes can run a pod, why, and what would make it fit.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::{ArgGroup, Args};
use cluster_view::placement::PlacementSnapshot;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use placement::{Explanation, explain, images};
use serde_json::Value;

use super::cluster::PlaceArguments;
use crate::output::{Data, section, table};
use crate::read::api_error;
use crate::{process, read};

/// Explain which nodes can run a pod.
///
/// Shows the platforms of its images, the nodes that match, and what would make the pod fit.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true))]
pub(super) struct Arguments {
    /// Name of the pod.
    #[arg(group = "what")]
    pod: Option<String>,

    /// Manifest of a pod, or of a workload that creates pods, such as a Deployment or a Job. `-`
    /// reads standard input.
    #[arg(short, long, value_name = "FILE", group = "what")]
    filename: Option<PathBuf>,

    /// Namespace of the pod.
    /// [default: that of the context]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,

    #[command(flatten)]
    place: PlaceArguments,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let explanation = process::build_runtime()?.block_on(explained(arguments))?;
    let text = render(&explanation)?;
    arguments.place.output.print(&explanation, || text)
}

async fn explained(arguments: &Arguments) -> anyhow::Result<Explanation> {
    let client = arguments.place.client().await?;
    let given = arguments.namespace.as_deref();
    let given = given.unwrap_or_else(|| client.default_namespace());
    let pod = match (&arguments.pod, &arguments.filename) {
        (Some(name), _) => unplaced(&client, given, name).await?,
        (None, Some(path)) => of_file(path)?,
        // clap requires one of them.
        (None, None) => bail!("nothing to explain: name a pod, or a file with -f"),
    };
    let view = PlacementSnapshot::read(&client).await?;
    let namespace = pod.pointer("/metadata/namespace").and_then(Value::as_str);
    let namespace = namespace.unwrap_or(given);
    let settings = view.settings_for(&client, namespace, &pod).await?;
    let used = images(&pod["spec"]).into_iter();
    let known = arguments
        .place
        .inspect_images(&client, used.map(|used| used.image).collect())
        .await?;
    Ok(explain(
        &pod,
        &known,
        &view.settings.classes,
        &view.cluster,
        settings,
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
    let object: Value = serde_saphyr::from_str(&read::file(path)?).with_context(what)?;
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
    text.push('\n');
    text.push_str(&table(&["NODES", "COUNT", "RUNS", "WHY NOT"], rows));
    let remedies: Vec<String> = result.remedies.iter().map(ToString::to_string).collect();
    text.push_str(&section("What would make it fit", &remedies));
    if let Some(change) = &result.change {
        let change = Data::Yaml.write(change)?;
        let lines: Vec<String> = change.lines().map(ToOwned::to_owned).collect();
        text.push_str(&section("Changes to the pod", &lines));
    }
    Ok(text)
}
