//! `medley release mirror`: rewrites the image references of a release.

use ::release_migration::mirror::{Destination, mirror};
use anyhow::Context as _;
use clap::Args;
use serde_json::{Value, json};

use super::output::OutputArguments;
use super::source::PayloadArgument;
use crate::{exit, process};

/// Rewrite a release for images in another registry.
///
/// Every reference to an image is rewritten, so that the images that operators must report and
/// those in their configuration stay the same. Nothing is copied between registries.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  medley release mirror release --to mirror.example/ocp/release -o mirrored
  medley release mirror quay.io/x/release:4.18.0-multi --to-registry mirror.example:5000 -o mirrored")]
pub(super) struct Arguments {
    #[command(flatten)]
    payload: PayloadArgument,

    /// The single repository that holds all images.
    #[arg(
        long,
        value_name = "REPOSITORY",
        required_unless_present = "to_registry"
    )]
    to: Option<String>,

    /// The registry, or a path in it, that holds all images under their previous repository names.
    #[arg(long, value_name = "HOST[:PORT][/PATH]", conflicts_with = "to")]
    to_registry: Option<String>,

    #[command(flatten)]
    output: OutputArguments,
}

impl Arguments {
    fn destination(&self) -> anyhow::Result<Destination> {
        match (&self.to, &self.to_registry) {
            (Some(to), _) => Destination::repository(to).with_context(|| format!("--to {to}")),
            (None, to) => {
                let to = to.as_deref().unwrap_or_default();
                Destination::registry(to).with_context(|| format!("--to-registry {to}"))
            }
        }
    }
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let to = arguments.destination()?;
    arguments.output.check()?;
    let found = process::build_runtime()?.block_on(arguments.payload.read())?;
    let mirrored = mirror(&found.files, &to)?;
    arguments.output.write(&mirrored.files)?;
    let folder = arguments.output.name();
    let moved: Vec<Value> = mirrored
        .moved
        .iter()
        .map(|(from, to)| json!({ "from": from, "to": to }))
        .collect();
    let text = match arguments.output.format() {
        Some(form) => form.write(&json!({
            "release": found.name,
            "folder": folder,
            "changedFiles": mirrored.changed,
            "images": moved,
        }))?,
        None => format!(
            "{} images in {} files rewritten, and all written to {folder}\n",
            moved.len(),
            mirrored.changed
        ),
    };
    exit::print(&text)
}
