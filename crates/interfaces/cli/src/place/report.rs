//! `medley place report`: the platforms of all images of a cluster, and pods that can never run.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use cluster_view::placement::PlacementSnapshot;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt as _};
use placement::{Coverage, PlatformCoverage, PodSummary, Settings, Survey, UnrunnablePod, survey};
use serde_json::json;

use super::cluster::PlaceArguments;
use crate::output::{section, table};
use crate::process;
use crate::read::{self, scoped};
use crate::selector::SelectorArguments;

/// Report the platforms of the images in a cluster, and pods that can never run.
///
/// Shows how many nodes can run each image, and which nodes run no pods.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Report only pods of this namespace.
    /// [default: all]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,

    #[command(flatten)]
    selector: SelectorArguments,

    #[command(flatten)]
    place: PlaceArguments,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let survey = process::build_runtime()?.block_on(surveyed(arguments))?;
    arguments.place.output.print(&survey, || render(&survey))
}

async fn surveyed(arguments: &Arguments) -> anyhow::Result<Survey> {
    let client = arguments.place.client().await?;
    let api: Api<Pod> = scoped(&client, arguments.namespace.as_deref());
    let pods = read::try_list(&api, arguments.selector.params()).await?;
    let pods = pods.unwrap_or_default();
    let all = pods.iter().map(|pod| {
        let name = format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
        (name, PodSummary::read(&json!(pod)))
    });
    let all: BTreeMap<String, PodSummary> = all.collect();
    let used: BTreeSet<String> = all
        .values()
        .flat_map(|pod| &pod.images)
        .map(|used| used.image.clone())
        .collect();
    let view = PlacementSnapshot::read(&client).await?;
    let known = arguments.place.inspect_images(&client, used).await?;
    Ok(survey(
        &all,
        &known,
        &view.settings.classes,
        &view.cluster,
        &Settings::default(),
    ))
}

fn render(survey: &Survey) -> String {
    let mut text = String::new();
    if survey.images.is_empty() {
        text.push_str("There are no pods.\n");
    } else {
        let rows = survey.images.iter().map(row);
        text.push_str(&table(&["IMAGE", "FOR", "PODS", "NODES"], rows));
        let rows = survey.places.iter().map(covered);
        text.push('\n');
        text.push_str(&table(&["NODES", "COUNT", "RUN"], rows));
    }
    let stuck = |stuck: &UnrunnablePod| format!("{}: {}", stuck.pod, stuck.why);
    let stuck: Vec<String> = survey.stuck.iter().map(stuck).collect();
    text.push_str(&section("Pods that can never run", &stuck));
    text.push_str(&section("Nodes without pods", &survey.idle));
    text
}

fn covered(place: &PlatformCoverage) -> [String; 3] {
    [
        place.place.clone(),
        place.nodes.to_string(),
        format!("{} of {} images", place.images, place.of_images),
    ]
}

fn row(image: &Coverage) -> [String; 4] {
    [
        image.image.clone(),
        image.platforms.clone(),
        image.pods.to_string(),
        format!("{} of {}", image.nodes, image.of_nodes),
    ]
}
