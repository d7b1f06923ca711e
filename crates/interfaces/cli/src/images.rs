//! `medley image` and `medley images`: images in registries, disks made from them, and the boot
//! images of a cluster.

pub(crate) mod change;
mod coverage;
mod explain;
mod hand_over;
mod import;
pub(crate) mod inspect;
mod list;
mod objects;
mod pin;
mod policy;
pub(crate) mod progress;
mod refresh;
pub(crate) mod registry;
mod verify;

pub(crate) use objects::try_read;

use clap::{Args, Subcommand};

/// Inspect an image in a registry, archive or directory.
#[derive(Debug, Args)]
pub(crate) struct ImageArguments {
    #[command(subcommand)]
    command: ImageCommand,
}

#[derive(Debug, Subcommand)]
enum ImageCommand {
    Inspect(inspect::Arguments),
}

/// Show and pin the boot images of a cluster, and import disks from images.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    // Subcommands that need no cluster do not take the flag.
    mut_arg("kubeconfig", |it| it.global(false)),
    mut_arg("context", |it| it.global(false))
)]
pub(crate) struct ImagesArguments {
    #[command(subcommand)]
    command: Option<ImagesCommand>,

    #[command(flatten)]
    list: list::Arguments,
}

#[derive(Debug, Subcommand)]
enum ImagesCommand {
    Explain(explain::Arguments),
    Pin(pin::PinArguments),
    Unpin(pin::UnpinArguments),
    Rollback(pin::RollbackArguments),
    Refresh(refresh::Arguments),
    Coverage(coverage::Arguments),
    Verify(verify::Arguments),
    TakeOver(hand_over::TakeOverArguments),
    HandBack(hand_over::HandBackArguments),
    Import(import::Arguments),
}

/// Runs `medley image ...`.
pub(crate) fn image(arguments: &ImageArguments) -> anyhow::Result<()> {
    match &arguments.command {
        ImageCommand::Inspect(arguments) => inspect::run(arguments),
    }
}

/// Runs `medley images ...`.
pub(crate) fn images(arguments: &ImagesArguments) -> anyhow::Result<()> {
    match &arguments.command {
        None => list::run(&arguments.list),
        Some(ImagesCommand::Explain(arguments)) => explain::run(arguments),
        Some(ImagesCommand::Pin(arguments)) => pin::pin(arguments),
        Some(ImagesCommand::Unpin(arguments)) => pin::unpin(arguments),
        Some(ImagesCommand::Rollback(arguments)) => pin::rollback(arguments),
        Some(ImagesCommand::Refresh(arguments)) => refresh::run(arguments),
        Some(ImagesCommand::Coverage(arguments)) => coverage::run(arguments),
        Some(ImagesCommand::Verify(arguments)) => verify::run(arguments),
        Some(ImagesCommand::TakeOver(arguments)) => hand_over::take_over(arguments),
        Some(ImagesCommand::HandBack(arguments)) => hand_over::hand_back(arguments),
        Some(ImagesCommand::Import(arguments)) => import::run(arguments),
    }
}
