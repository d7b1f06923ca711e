//! Reads which genuine operators run, for the modes of controllers.

use std::collections::BTreeSet;

use cluster_view::layers::LayerObjects;
use controllers::Job;
use golden_images::layers::Layer;
use kube::Client;

use super::super::inputs::{JobOwnership, OwnershipState};
use crate::layers::job;

/// One entry for each controller that has a genuine operator, or is one of these jobs.
pub(super) async fn read(client: &Client, jobs: &BTreeSet<Job>) -> Vec<JobOwnership> {
    layers(client, jobs).await
}

/// The layers of golden images.
async fn layers(client: &Client, jobs: &BTreeSet<Job>) -> Vec<JobOwnership> {
    let objects = LayerObjects::read(client).await;
    let objects = objects.map_err(|error| error.message());
    let entry = |layer: Layer| {
        let enabled = jobs.contains(&job(layer));
        let state = objects.as_ref().map_err(String::clone).map(|objects| {
            let view = objects.view(layer, enabled);
            OwnershipState {
                ownership: view.ownership,
                running: view.running,
            }
        });
        JobOwnership {
            component: layer.to_string(),
            enabled,
            state,
            take_over: layer
                .operator()
                .map(|_| format!("medley images take-over {layer}")),
        }
    };
    Layer::ALL.into_iter().map(entry).collect()
}
