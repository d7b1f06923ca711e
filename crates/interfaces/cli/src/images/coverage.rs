//! `medley images coverage`: what is missing among the boot images of a cluster.

use api::golden::Verification;
use clap::Args;
use cluster_view::coverage::CoverageObjects;
use cluster_view::images::ImageObjects;
use cluster_view::layers::LayerObjects;
use golden_images::coverage::Coverage;
use golden_images::verify::{Outcome, sentence};
use serde_json::json;

use super::objects::read;
use crate::cluster::ClusterArguments;
use crate::layers::{installed_jobs, views};
use crate::output::{OutputArguments, section, table};
use crate::process;

/// Show which operator manages boot images, and what is missing.
///
/// Shows for each layer whether Medley or another operator writes it, which node architectures have no disk of an image,
/// where SSP and DataImportCrons do not follow the switch for multi-architecture images, and which disks are for another
/// architecture. Works beside HCO, SSP and CDI, and changes nothing.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Namespace of the installation of Medley.
    #[arg(long, value_name = "NAME", default_value = manifests::NAMESPACE)]
    namespace: String,

    #[command(flatten)]
    output: OutputArguments,

    #[command(flatten)]
    cluster: ClusterArguments,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (coverage, mismatches, nodes, layers) = process::build_runtime()?.block_on(async {
        let client = arguments.cluster.client().await?;
        let objects = read(&client, None).await?;
        let others = CoverageObjects::read(&client, &objects).await?;
        let layers = LayerObjects::read(&client).await?;
        let jobs = installed_jobs(&client, &arguments.namespace).await;
        let nodes = others.architectures.workload.clone();
        let views = views(&layers, jobs.as_ref());
        let mismatches = mismatches(&objects);
        anyhow::Ok((others.decide(&objects), mismatches, nodes, views))
    })?;
    let modes: Vec<_> = layers
        .iter()
        .map(|it| {
            json!({
                "layer": it.layer.component(), "mode": it.ownership.mode, "owner": it.ownership.owner,
                "reason": it.ownership.reason, "message": it.ownership.message,
            })
        })
        .collect();
    let value = json!({
        "layers": modes, "nodes": nodes, "gaps": coverage.gaps, "drift": coverage.drift,
        "mismatches": mismatches,
    });
    arguments.output.print(&value, || {
        let rows = layers.iter().map(|it| {
            [
                it.layer.to_string(),
                it.ownership.mode.to_string(),
                it.ownership.owner.clone().unwrap_or_default(),
            ]
        });
        let table = table(&["LAYER", "MODE", "MANAGED BY"], rows);
        format!("{table}{}", findings(&coverage, &mismatches))
    })
}

/// Disks for another architecture, as the controller found them while CDI imports.
fn mismatches(objects: &ImageObjects) -> Vec<Verification> {
    let policy = objects.policy.object.as_ref();
    let status = policy.and_then(|it| it.status.as_ref());
    let all = status.iter().flat_map(|it| &it.verifications);
    let found = all.filter(|it| it.result == Outcome::Mismatch.as_str());
    found.cloned().collect()
}

fn findings(coverage: &Coverage, mismatches: &[Verification]) -> String {
    let gaps: Vec<String> = coverage.gaps.iter().map(ToString::to_string).collect();
    let drift: Vec<String> = coverage.drift.iter().map(ToString::to_string).collect();
    let mismatches: Vec<String> = mismatches.iter().map(sentence).collect();
    if gaps.is_empty() && drift.is_empty() && mismatches.is_empty() {
        return "\nNothing is missing: every image has a disk for every architecture of nodes.\n"
            .to_owned();
    }
    let missing = section("Missing", &gaps);
    let drift = section("Drift", &drift);
    format!("{missing}{drift}{}", section("Mismatch", &mismatches))
}
