//! Boot images for every architecture.

use std::fmt::Write as _;

use api::golden::NAME;
use api::mode::{Mode, reasons};
use cluster_view::layers::{LayerObjects, LayerView};
use golden_images::overview::{Image, State as Images, Variant};
use kube::Client;

use super::Name;
use super::tree::{Job, Object, State};
use crate::images::try_read;
use crate::layers::{installed_jobs, views};

/// Reads the state of the job.
pub(super) async fn read_state(client: &Client) -> anyhow::Result<Job> {
    let Some(found) = try_read(client, None).await? else {
        return Ok(Job::off(Name::Images, "datasources.cdi.kubevirt.io", "CDI"));
    };
    let images = found.images();
    let policy = found.policy.object.as_ref().map(|policy| {
        let conditions = policy.status.as_ref().map(|it| it.conditions.as_slice());
        Object::of_conditions("GoldenImagePolicy", NAME, conditions)
    });
    let objects = policy.into_iter().chain(images.iter().map(object));
    let variants = || images.iter().flat_map(|it| &it.architectures);
    let of = |state: Images| variants().filter(|it| it.state == state).count();
    let ready = of(Images::Ready);
    let mut message = format!(
        "{ready} of {} disks of {} images are ready",
        variants().count(),
        images.len()
    );
    for (state, word) in [
        (Images::Pending, "pending"),
        (Images::Failed, "failed"),
        (Images::Leaving, "leaving"),
    ] {
        if of(state) > 0 {
            // Writing to a string cannot fail.
            let _ = write!(message, ", {} {word}", of(state));
        }
    }
    let layers = LayerObjects::read(client).await.ok();
    let jobs = installed_jobs(client, manifests::NAMESPACE).await;
    let layers = layers.map(|it| views(&it, jobs.as_ref()));
    let layers: Vec<LayerView> = layers.into_iter().flatten().filter(is_remarkable).collect();
    for view in layers.iter().filter(|it| it.ownership.mode == Mode::Assist) {
        let owner = view.ownership.owner.as_deref().unwrap_or("no operator");
        let _ = write!(message, "; {} assists {owner}", view.layer);
    }
    let objects = layers.iter().map(layer).chain(objects).collect();
    Ok(Job::new(Name::Images).with(objects, message))
}

/// Whether a layer is worth a line: beside another operator, or if a policy sets its mode.
fn is_remarkable(view: &LayerView) -> bool {
    view.running.is_some() || view.ownership.reason == reasons::SET_BY_POLICY
}

/// A layer as an object of the job; its mode is no problem.
fn layer(view: &LayerView) -> Object {
    let mut object = Object::new("Layer", view.layer.component(), State::Ready);
    object.reason = Some(view.ownership.mode.to_string());
    object.message = Some(view.ownership.message.clone());
    object
}

fn object(image: &Image) -> Object {
    let parts: Vec<Object> = image.architectures.iter().map(part).collect();
    let worst = parts.iter().map(|it| it.state).max();
    let mut object = Object::new("Image", &image.name, worst.unwrap_or(State::Progressing));
    object.namespace = Some(image.namespace.clone());
    if let Some(pointer) = &image.pointer {
        object.message = Some(format!("points to {}", pointer.data_source));
    }
    object.parts = parts;
    object
}

fn part(variant: &Variant) -> Object {
    let state = match variant.state {
        Images::Ready | Images::Leaving => State::Ready,
        Images::Pending => State::Progressing,
        Images::Failed => State::Attention,
    };
    let mut object = Object::new("DataSource", &variant.data_source, state);
    object.reason = variant.progress.clone().or_else(|| variant.reason.clone());
    object.since = variant.since;
    object.message.clone_from(&variant.message);
    object
}
