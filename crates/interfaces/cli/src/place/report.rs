//! `medley place report`: the platforms of all images of a cluster, and pods that can never run.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use clap::Args;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use placement::{Coverage, PlaceCoverage, PodSummary, Survey, UnrunnablePod, survey};
use serde_json::{Value, json};

use super::cluster::{Offers, PlaceArguments};
use crate::governance::configs::api_error;
use crate::governance::output::table;
use crate::governance::render::section;
use crate::{exit, process};

/// Report the platforms of the images in a cluster: how many nodes run each, which nodes are
/// unused, and which pods can never run.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Only pods of this namespace.
    /// [default: all]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,

    #[command(flatten)]
    place: PlaceArguments,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let survey = process::build_runtime()?.block_on(surveyed(arguments))?;
    match arguments.place.output {
        Some(data) => exit::print(&data.write(&json!(survey))?),
        None => exit::print(&render(&survey)),
    }
}

async fn surveyed(arguments: &Arguments) -> anyhow::Result<Survey> {
    let client = arguments.place.client().await?;
    let pods: Api<Pod> = match &arguments.namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let pods = pods
        .list(&ListParams::default())
        .await
        .map_err(api_error)
        .context("listing pods")?;
    let mut all = BTreeMap::new();
    for pod in pods {
        let name = format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
        let pod: Value = serde_json::to_value(pod).context("reading a pod")?;
        all.insert(name, PodSummary::read(&pod));
    }
    let used: BTreeSet<String> = all
        .values()
        .flat_map(|pod| &pod.images)
        .map(|used| used.image.clone())
        .collect();
    let offers = Offers::read(&client).await?;
    let known = arguments.place.inspect_images(used).await?;
    Ok(survey(
        &all,
        &known,
        &offers.classes,
        &offers.nodes,
        &offers.settings,
    ))
}

fn render(survey: &Survey) -> String {
    let mut text = String::new();
    if survey.images.is_empty() {
        text.push_str("There are no pods.\n");
    } else {
        let rows = survey.images.iter().map(row).collect();
        text.push_str(&table(["IMAGE", "FOR", "PODS", "NODES"], rows));
        let rows = survey.places.iter().map(covered).collect();
        text.push('\n');
        text.push_str(&table(["NODES", "COUNT", "RUN"], rows));
    }
    let stuck = |stuck: &UnrunnablePod| format!("{}: {}", stuck.pod, stuck.why);
    let stuck: Vec<String> = survey.stuck.iter().map(stuck).collect();
    text.push_str(&section("Pods that can never run", &stuck));
    text.push_str(&section("Nodes without pods", &survey.idle));
    text
}

fn covered(place: &PlaceCoverage) -> [String; 3] {
    [
        place.place.clone(),
        place.nodes.to_string(),
        format!("{} of {} images", place.images, place.of_images),
    ]
}

fn row(image: &Coverage) -> [String; 4] {
    [
        image.image.clone(),
        image.told.clone(),
        image.pods.to_string(),
        format!("{} of {}", image.nodes, image.of_nodes),
    ]
}
