//! Actions on images: write the policy, or what CDI reads where that imports; poll sources.

use std::collections::{BTreeMap, BTreeSet};

use api::cdi::DataImportCron;
use api::golden::NAME;
use axum::extract::Path;
use axum::response::Response;
use edits::{PinChange, Policies};
use golden_images::overview::{Image, Variant};
use golden_images::pins::{PinError, RequestedVersion, hold, with_all, without};
use jiff::Timestamp;
use kube::Api;

use super::href;
use super::image::find;
use crate::MANAGER;
use crate::error::Problem;
use crate::pages::short_digest;
use crate::visitor::{Fields, Visitor};

impl From<PinError> for Problem {
    fn from(none: PinError) -> Self {
        Self::invalid(none.to_string())
    }
}

/// Performs an action, and redirects to the page of the image.
pub(super) async fn act(
    visitor: Visitor,
    Path((namespace, name, action)): Path<(String, String, String)>,
    fields: Fields,
) -> Result<Response, Problem> {
    let (_, image) = find(&visitor, &namespace, &name).await?;
    let message = match action.as_str() {
        "pin" => {
            let wanted = fields
                .get("digest")
                .map_or(RequestedVersion::InUse, RequestedVersion::Digest);
            pin(&visitor, &image, &fields, wanted, "is pinned to").await?
        }
        "roll-back" => {
            let verb = "is rolled back to";
            pin(&visitor, &image, &fields, RequestedVersion::Back(1), verb).await?
        }
        "unpin" => unpin(&visitor, &image, &fields).await?,
        "refresh" => refresh(&visitor, &image, &fields).await?,
        _ => return Err(Problem::missing("There is no such page.")),
    };
    Ok(visitor.done(message, &href(&image)))
}

/// The architecture of a form, by the name of its DataSource.
fn chosen<'a>(image: &'a Image, fields: &Fields) -> Result<&'a Variant, Problem> {
    let source = fields.need("source")?;
    let mut variants = image.architectures.iter();
    let found = variants.find(|it| it.data_source == source);
    found.ok_or_else(|| Problem::missing(format!("{} has no DataSource {source}.", image.name)))
}

async fn pin(
    visitor: &Visitor,
    image: &Image,
    fields: &Fields,
    wanted: RequestedVersion<'_>,
    verb: &str,
) -> Result<String, Problem> {
    let held = hold(chosen(image, fields)?, wanted, fields.get("reason"))?;
    let (name, digest) = (&held.variant.data_source, short_digest(&held.pin.digest));
    if edits::running_cdi(visitor.client(), Timestamp::now())
        .await
        .is_some()
    {
        let digests = BTreeMap::from([(name.clone(), held.pin.digest.clone())]);
        let edited = edit_upstream(visitor, image, PinChange::Pin(&digests)).await?;
        return Ok(format!("{name} {verb} {digest}, in {edited}."));
    }
    let written = Policies::new(visitor.client(), MANAGER)
        .change(false, |spec| with_all(spec, std::slice::from_ref(&held)))
        .await?;
    visitor.viewer().saw(&written).await;
    Ok(format!("{name} {verb} {digest}: {}.", held.effect()))
}

/// Changes a pin beside a running CDI, which does not read the GoldenImagePolicy. Returns the edited objects.
async fn edit_upstream(
    visitor: &Visitor,
    image: &Image,
    change: PinChange<'_>,
) -> Result<String, Problem> {
    let client = visitor.client();
    let planned = edits::plan_pins(client, image, change).await?;
    for edit in &planned {
        // One click must not delete volumes.
        if let Some(loss) = &edit.loss {
            return Err(Problem::invalid(format!(
                "{} was not edited: {loss}. `medley images pin|rollback|unpin {} -n {} --reimport` accepts that.",
                edit.object, image.name, image.namespace
            )));
        }
    }
    if planned.is_empty() {
        return Err(Problem::invalid(format!(
            "Nothing imports {}: no DataImportCron manages a DataSource of it.",
            image.name
        )));
    }
    edits::apply_pins(client, &planned, (MANAGER, false)).await?;
    let objects: Vec<&str> = planned.iter().map(|edit| edit.object.as_str()).collect();
    Ok(objects.join(", "))
}

async fn unpin(visitor: &Visitor, image: &Image, fields: &Fields) -> Result<String, Problem> {
    let variant = chosen(image, fields)?;
    let source = &variant.data_source;
    if variant.is_pinned_upstream {
        let sources = BTreeSet::from([source.clone()]);
        let edited = edit_upstream(visitor, image, PinChange::Unpin(&sources)).await?;
        return Ok(format!("{source} follows its source again, by {edited}."));
    }
    let key = variant.policy_key.as_ref();
    let Some((of, architecture)) = key.filter(|_| variant.pinned.is_some()) else {
        return Err(Problem::invalid(format!(
            "{source} is not pinned: GoldenImagePolicy {NAME} has no pin for it."
        )));
    };
    let written = Policies::new(visitor.client(), MANAGER)
        .change(false, |spec| without(spec, of, architecture))
        .await?;
    visitor.viewer().saw(&written).await;
    Ok(format!("{source} follows its source again."))
}

async fn refresh(visitor: &Visitor, image: &Image, fields: &Fields) -> Result<String, Problem> {
    let (client, namespace) = (visitor.client(), &image.namespace);
    let variants = match fields.get("source") {
        Some(_) => vec![chosen(image, fields)?],
        None => image.architectures.iter().collect(),
    };
    let mut last = None;
    for variant in variants {
        let now = Timestamp::now();
        let done = edits::refresh(client, namespace, variant, (MANAGER, false), now).await?;
        last = done.map(|done| done.cron).or(last);
    }
    let Some(last) = last else {
        return Err(Problem::invalid(format!(
            "Nothing imports {}: no DataImportCron manages a DataSource of it.",
            image.name
        )));
    };
    // The last write is enough to wait for: one watch delivers all of them in order.
    let crons: Api<DataImportCron> = Api::namespaced(client.clone(), namespace);
    let read = crons.get(&last).await;
    let read = read.map_err(|error| Problem::api("reading the DataImportCron", error))?;
    visitor.viewer().saw(&read).await;
    Ok("The source is being polled for a new version.".to_owned())
}
