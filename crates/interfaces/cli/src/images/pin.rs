//! `medley images pin`, `unpin` and `rollback`: the version of an image that is used.
//!
//! All three write the GoldenImagePolicy, where `kubectl` and Git can write it as well. Beside a running CDI they edit the
//! objects that CDI acts on (`upstream`).

mod upstream;

use std::collections::BTreeMap;

use anyhow::{anyhow, bail};
use api::cdi::Named;
use api::golden::{GoldenImagePolicySpec, ImagePolicy, NAME};
use clap::Args;
use edits::PinChange;
use golden_images::overview::{State, Variant};
use golden_images::pins::{NewPin, PinError, RequestedVersion, hold, with_all, without};
use jiff::Timestamp;

use super::change::ChangeArguments;
use super::objects::{ImageArgument, SelectedImage};
use super::policy::policies;
use crate::controller::{ControllerArguments, WaitArguments};
use crate::output::remark;
use crate::{exit, process};

/// How a pin is written.
#[derive(Debug, Args)]
struct PinWriteArguments {
    #[command(flatten)]
    change: ChangeArguments,

    #[command(flatten)]
    controller: ControllerArguments,

    /// Beside a running CDI: accept that its volumes are deleted and imported again, if the change does that.
    #[arg(long)]
    reimport: bool,

    #[command(flatten)]
    wait: WaitArguments,
}

/// Pin an image to a version, by default to the current one.
///
/// The operator imports a version again if its volume is gone. Beside a running CDI, which has no pins, the DataImportCron
/// or the template that a user owns is edited instead, where CDI keeps to that.
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
    write: PinWriteArguments,
}

/// Remove the pin of an image, so that it follows new versions again.
#[derive(Debug, Args)]
pub(super) struct UnpinArguments {
    #[command(flatten)]
    image: ImageArgument,

    #[command(flatten)]
    write: PinWriteArguments,
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
    write: PinWriteArguments,
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
        arguments
            .write
            .pin(&arguments.image, &selected, &held, "pinned to")
            .await
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
        arguments
            .write
            .pin(&arguments.image, &selected, &held, "rolled back to")
            .await
    })
}

/// Removes the pin.
pub(super) fn unpin(arguments: &UnpinArguments) -> anyhow::Result<()> {
    process::build_runtime()?.block_on(async {
        let selected = arguments.image.find().await?;
        if selected.variants().any(|it| it.is_pinned_upstream) {
            return arguments.write.unpin_upstream(&selected).await;
        }
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
        arguments
            .write
            .policy(&selected, |spec| {
                let mut spec = spec.clone();
                for (_, (image, architecture)) in &pinned {
                    spec.images = without(&spec, image, architecture);
                }
                spec.images
            })
            .await?;
        let suffix = arguments.write.change.suffix();
        let lines = pinned.iter().map(|(variant, _)| {
            let newest = match &variant.newest {
                Some(newest) if variant.digest.as_ref() != Some(newest) => {
                    format!("; {newest} is imported")
                }
                _ => String::new(),
            };
            format!("{} unpinned{suffix}{newest}\n", variant.data_source)
        });
        exit::print(&lines.collect::<String>())?;
        let newest = pinned.iter().filter_map(|(variant, _)| {
            Some((variant.data_source.clone(), variant.newest.clone()?))
        });
        arguments
            .write
            .result(&arguments.image, &selected, newest)
            .await
    })
}

impl PinWriteArguments {
    /// Pins versions, and waits for them if requested.
    async fn pin(
        &self,
        image: &ImageArgument,
        selected: &SelectedImage,
        held: &[NewPin<'_>],
        verb: &str,
    ) -> anyhow::Result<()> {
        if let Some(cdi) = edits::running_cdi(&selected.client, Timestamp::now()).await {
            remark(&format!(
                "Acted on by {} ({}).",
                cdi.operator.title,
                cdi.found_by()
            ));
            let digests = held
                .iter()
                .map(|held| (held.variant.data_source.clone(), held.pin.digest.clone()));
            let digests: BTreeMap<String, String> = digests.collect();
            self.edit_upstream(selected, PinChange::Pin(&digests))
                .await?;
            return self.pinned(image, selected, held, verb).await;
        }
        // A function of the current spec, since the write is repeated on a conflict and must not drop pins that were
        // added meanwhile.
        self.policy(selected, |spec| with_all(spec, held)).await?;
        self.pinned(image, selected, held, verb).await
    }

    /// Prints what was pinned, and waits for it if requested.
    async fn pinned(
        &self,
        image: &ImageArgument,
        selected: &SelectedImage,
        held: &[NewPin<'_>],
        verb: &str,
    ) -> anyhow::Result<()> {
        let suffix = self.change.suffix();
        let lines = held.iter().map(|held| {
            let name = &held.variant.data_source;
            let (digest, effect) = (&held.pin.digest, held.effect());
            format!("{name} {verb} {digest}{suffix}: {effect}\n")
        });
        exit::print(&lines.collect::<String>())?;
        let wanted = held
            .iter()
            .map(|held| (held.variant.data_source.clone(), held.pin.digest.clone()));
        self.result(image, selected, wanted).await
    }

    /// Changes the policy, if a controller acts on it.
    async fn policy(
        &self,
        selected: &SelectedImage,
        edit: impl Fn(&GoldenImagePolicySpec) -> Vec<ImagePolicy>,
    ) -> anyhow::Result<()> {
        let (client, change) = (&selected.client, &self.change);
        let is_persisted = change.is_persisted();
        self.controller.check_pin(client, is_persisted).await?;
        if change.is_sent() {
            policies(client).change(change.is_tried(), edit).await?;
        }
        Ok(())
    }

    /// Waits until these digests are in use, by DataSource.
    async fn result(
        &self,
        image: &ImageArgument,
        selected: &SelectedImage,
        wanted: impl Iterator<Item = (String, String)>,
    ) -> anyhow::Result<()> {
        if !self.wait.is_set() || !self.change.is_persisted() {
            return Ok(());
        }
        let wanted: BTreeMap<String, String> = wanted.collect();
        let is_used = |it: &Variant| {
            let digest = wanted.get(&it.data_source);
            digest
                .is_none_or(|digest| it.digest.as_ref() == Some(digest) && it.state == State::Ready)
        };
        let what = "the version to be in use";
        image.wait_for(selected, &self.wait, what, is_used).await?;
        let lines = wanted
            .iter()
            .map(|(name, digest)| format!("{name} is Ready with {digest}\n"));
        exit::print(&lines.collect::<String>())
    }
}
