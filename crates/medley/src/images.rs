//! `medley image` and `medley images`: what is in registries, and disks from it.

mod import;
mod inspect;
pub(crate) mod progress;
mod registry;

use clap::{Args, Subcommand};

/// Look at an image in a registry, an archive or a folder.
#[derive(Debug, Args)]
pub(crate) struct ImageArguments {
    #[command(subcommand)]
    command: ImageCommand,
}

#[derive(Debug, Subcommand)]
enum ImageCommand {
    Inspect(inspect::Arguments),
}

/// Disks from images.
#[derive(Debug, Args)]
pub(crate) struct ImagesArguments {
    #[command(subcommand)]
    command: ImagesCommand,
}

#[derive(Debug, Subcommand)]
enum ImagesCommand {
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
        ImagesCommand::Import(arguments) => import::run(arguments),
    }
}
