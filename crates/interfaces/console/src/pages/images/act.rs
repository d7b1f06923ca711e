//! Actions on images: write the policy, or poll sources.

use api::cdi::DataImportCron;
use api::golden::NAME;
use axum::extract::Path;
use axum::response::Response;
use edits::Policies;
use golden_images::overview::{Image, Variant};
use golden_images::pins::{Held, PinError, Wanted, hold, with_all, without};
use jiff::Timestamp;
use kube::Api;
use kube::api::PatchParams;

use super::image::find;
use super::{href, short};
use crate::MANAGER;
use crate::error::Problem;
use crate::visitor::{Fields, Visitor};

impl From<PinError> for Problem {
    fn from(none: PinError) -> Self {
        Self::invalid(none.to_string())
    }
}

type At = Path<(String, String)>;

/// The architecture of a form, by the name of its DataSource.
fn chosen<'a>(image: &'a Image, fields: &Fields) -> Result<&'a Variant, Problem> {
    let source = fields.need("source")?;
    let found = image
        .architectures
        .iter()
        .find(|it| it.data_source == source);
    found.ok_or_else(|| Problem::missing(format!("{} has no DataSource {source}.", image.name)))
}

/// Writes the pins, and redirects to the page of the image.
async fn write(
    visitor: &Visitor,
    image: &Image,
    held: &[Held<'_>],
    verb: &str,
) -> Result<Response, Problem> {
    let written = Policies::new(visitor.client(), MANAGER)
        .change(false, |spec| with_all(spec, held))
        .await?;
    visitor.viewer().saw(&written).await;
    let message = held.iter().map(|held| {
        let (name, digest) = (&held.variant.data_source, short(&held.pin.digest));
        format!("{name} {verb} {digest}: {}.", held.effect())
    });
    Ok(visitor.done(message.collect::<Vec<_>>().join(" "), &href(image)))
}

pub(super) async fn pin(
    visitor: Visitor,
    Path((namespace, name)): At,
    fields: Fields,
) -> Result<Response, Problem> {
    let (_, image) = find(&visitor, &namespace, &name).await?;
    let wanted = fields.get("digest").map_or(Wanted::InUse, Wanted::Digest);
    let held = hold(chosen(&image, &fields)?, wanted, fields.get("reason"))?;
    write(&visitor, &image, &[held], "is pinned to").await
}

pub(super) async fn roll_back(
    visitor: Visitor,
    Path((namespace, name)): At,
    fields: Fields,
) -> Result<Response, Problem> {
    let (_, image) = find(&visitor, &namespace, &name).await?;
    let held = hold(
        chosen(&image, &fields)?,
        Wanted::Back(1),
        fields.get("reason"),
    )?;
    write(&visitor, &image, &[held], "is rolled back to").await
}

pub(super) async fn unpin(
    visitor: Visitor,
    Path((namespace, name)): At,
    fields: Fields,
) -> Result<Response, Problem> {
    let (_, image) = find(&visitor, &namespace, &name).await?;
    let variant = chosen(&image, &fields)?;
    let Some((of, architecture)) = variant
        .policy_key
        .as_ref()
        .filter(|_| variant.pinned.is_some())
    else {
        let source = &variant.data_source;
        return Err(Problem::invalid(format!(
            "{source} is not pinned: GoldenImagePolicy {NAME} has no pin for it."
        )));
    };
    let written = Policies::new(visitor.client(), MANAGER)
        .change(false, |spec| without(spec, of, architecture))
        .await?;
    visitor.viewer().saw(&written).await;
    let message = format!("{} follows its source again.", variant.data_source);
    Ok(visitor.done(message, &href(&image)))
}

pub(super) async fn refresh(
    visitor: Visitor,
    Path((namespace, name)): At,
    fields: Fields,
) -> Result<Response, Problem> {
    let (_, image) = find(&visitor, &namespace, &name).await?;
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let variants = match fields.get("source") {
        Some(_) => vec![chosen(&image, &fields)?],
        None => image.architectures.iter().collect(),
    };
    let mut asked = Vec::new();
    for variant in variants {
        let now = Timestamp::now();
        let done = edits::refresh(visitor.client(), &namespace, variant, &params, now).await?;
        asked.extend(done.map(|done| done.cron));
    }
    if let Some(last) = asked.last() {
        let crons: Api<DataImportCron> = Api::namespaced(visitor.client().clone(), &namespace);
        let read = crons.get(last).await;
        let read = read.map_err(|error| Problem::api("reading the written policy", error))?;
        visitor.viewer().saw(&read).await;
        let message = "The source is being polled for a new version.";
        return Ok(visitor.done(message, &href(&image)));
    }
    Err(Problem::invalid(format!(
        "Nothing imports {name}: no DataImportCron manages a DataSource of it."
    )))
}
