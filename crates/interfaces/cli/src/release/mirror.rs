//! `medley release mirror`: rewrites the image references of a release.

use ::release_migration::mirror::{Destination, mirror};
use anyhow::Context as _;
use clap::Args;
use serde_json::{Value, json};

use super::output::TargetArguments;
use super::source::PayloadArgument;
use crate::process;

/// Rewrite the image references of a release for a mirror registry.
///
/// Rewrites every reference, so that the images that operators must report still equal those in
/// their configuration. Does not copy images between registries.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    payload: PayloadArgument,

    /// Repository of the mirror that holds all images.
    #[arg(long, value_name = "REPOSITORY")]
    #[arg(required_unless_present = "to_registry")]
    to: Option<String>,

    /// Registry, or path in a registry, that holds all images under their original repository names.
    #[arg(long, value_name = "HOST[:PORT][/PATH]", conflicts_with = "to")]
    to_registry: Option<String>,

    #[command(flatten)]
    target: TargetArguments,
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
    arguments.target.check()?;
    let found = process::build_runtime()?.block_on(arguments.payload.read())?;
    let mirrored = mirror(&found.files, &to)?;
    arguments.target.write(&mirrored.files)?;
    let folder = arguments.target.name();
    let moved: Vec<Value> = mirrored
        .moved
        .iter()
        .map(|(from, to)| json!({ "from": from, "to": to }))
        .collect();
    let value = json!({
        "release": found.name,
        "folder": folder,
        "changedFiles": mirrored.changed,
        "images": moved,
    });
    arguments.target.print(&value, || {
        let (images, files) = (moved.len(), mirrored.changed);
        format!("{images} images in {files} files rewritten, and all written to {folder}\n")
    })
}
