//! `medley images pin`, `unpin` and `rollback`: the version of an image that is used.
//!
//! All three write the GoldenImagePolicy, where `kubectl` and Git can write it as well.

use anyhow::{anyhow, bail};
use api::cdi::Named;
use api::golden::NAME;
use clap::Args;
use golden_images::overview::Variant;
use golden_images::pins::{NewPin, PinError, RequestedVersion, hold, with_all, without};

use super::change::ChangeArguments;
use super::objects::{ImageArgument, SelectedImage};
use super::policy::policies;
use crate::output::remark;
use crate::{exit, process};

/// Pin an image to a version, by default to the current one.
///
/// The operator imports a version again if its volume is gone.
#[derive(Debug, Args)]
pub(super) struct PinArguments {
    #[command(flatten)]
    image: ImageArgument,

    /// Full digest of the version (sha256:...), which may never have been in use.
    #[arg(long, value_name = "DIGEST")]
    digest: Option<String>,

    /// Version that was in use before: the beginning of its digest, or the name of its volume.
    #[arg(long, value_name = "VERSION", conflicts_with = "digest")]
    to: Option<String>,

    /// Why the image is pinned; recorded with the pin.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    change: ChangeArguments,
}

/// Remove the pin of an image, so that it follows new versions again.
#[derive(Debug, Args)]
pub(super) struct UnpinArguments {
    #[command(flatten)]
    image: ImageArgument,

    #[command(flatten)]
    change: ChangeArguments,
}

/// Roll an image back to an earlier version, and pin it to that version.
///
/// Architectures are rolled back independently; one without an earlier version stays unchanged.
#[derive(Debug, Args)]
pub(super) struct RollbackArguments {
    #[command(flatten)]
    image: ImageArgument,

    /// Number of versions to go back.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    steps: u16,

    /// Why the image is rolled back; recorded with the pin.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    change: ChangeArguments,
}

/// Pins a version.
pub(super) fn pin(arguments: &PinArguments) -> anyhow::Result<()> {
    process::build_runtime()?.block_on(async {
        let selected = arguments.image.find().await?;
        let wanted = match (&arguments.digest, &arguments.to) {
            (Some(digest), _) => RequestedVersion::Digest(digest),
            (None, Some(earlier)) => RequestedVersion::Earlier(earlier),
            (None, None) => RequestedVersion::InUse,
        };
        if wanted != RequestedVersion::InUse && selected.variants().count() > 1 {
            let there: Vec<&str> = selected
                .variants()
                .map(|it| it.architecture.as_str())
                .collect();
            bail!(
                "a version is of one architecture, and {} has several: use --arch with one of {}",
                selected.image.name,
                there.join(", ")
            );
        }
        let mut held = Vec::new();
        for variant in selected.variants() {
            held.push(hold(variant, wanted, arguments.reason.as_deref())?);
        }
        write(&selected, &held, &arguments.change, "pinned to").await
    })
}

/// Rolls back.
pub(super) fn rollback(arguments: &RollbackArguments) -> anyhow::Result<()> {
    process::build_runtime()?.block_on(async {
        let selected = arguments.image.find().await?;
        let steps = RequestedVersion::Back(usize::from(arguments.steps));
        let mut held = Vec::new();
        let mut refused: Vec<PinError> = Vec::new();
        for variant in selected.variants() {
            match hold(variant, steps, arguments.reason.as_deref()) {
                Ok(one) => held.push(one),
                // Not a missing version: no controller keeps versions of this image.
                Err(why @ PinError::NotManaged(_)) => return Err(why.into()),
                Err(why) => refused.push(why),
            }
        }
        if held.is_empty() {
            return Err(refused.pop().map_or_else(
                || anyhow!("{} has no versions", selected.image.name),
                anyhow::Error::new,
            ));
        }
        for why in refused {
            remark(&format!("{why}; it stays unchanged"));
        }
        write(&selected, &held, &arguments.change, "rolled back to").await
    })
}

/// Removes the pin.
pub(super) fn unpin(arguments: &UnpinArguments) -> anyhow::Result<()> {
    process::build_runtime()?.block_on(async {
        let selected = arguments.image.find().await?;
        let pinned = selected.variants().filter(|it| it.pinned.is_some());
        let pinned: Vec<(&Variant, &(Named, String))> = pinned
            .filter_map(|it| Some((it, it.policy_key.as_ref()?)))
            .collect();
        if pinned.is_empty() {
            bail!(
                "nothing of {} is pinned: GoldenImagePolicy {NAME} has no pin for it",
                selected.image.name
            );
        }
        if arguments.change.is_sent() {
            policies(&selected.client)
                .change(arguments.change.is_tried(), |spec| {
                    let mut spec = spec.clone();
                    for (_, (image, architecture)) in &pinned {
                        spec.images = without(&spec, image, architecture);
                    }
                    spec.images
                })
                .await?;
        }
        let suffix = arguments.change.suffix();
        let lines = pinned.iter().map(|(variant, _)| {
            let newest = match &variant.newest {
                Some(newest) if variant.digest.as_ref() != Some(newest) => {
                    format!("; {newest} is imported")
                }
                _ => String::new(),
            };
            format!("{} unpinned{suffix}{newest}\n", variant.data_source)
        });
        exit::print(&lines.collect::<String>())
    })
}

async fn write(
    selected: &SelectedImage,
    held: &[NewPin<'_>],
    change: &ChangeArguments,
    verb: &str,
) -> anyhow::Result<()> {
    if change.is_sent() {
        policies(&selected.client)
            // A function of the current spec, since the write is repeated on a conflict and must
            // not drop pins that were added meanwhile.
            .change(change.is_tried(), |spec| with_all(spec, held))
            .await?;
    }
    let suffix = change.suffix();
    let lines = held.iter().map(|held| {
        let name = &held.variant.data_source;
        format!(
            "{name} {verb} {}{suffix}: {}\n",
            held.pin.digest,
            held.effect()
        )
    });
    exit::print(&lines.collect::<String>())
}
