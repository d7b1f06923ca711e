//! `medley images refresh`: polls the source of an image now.

use anyhow::bail;
use api::cdi::GROUP;
use clap::Args;
use golden_images::overview::Variant;
use golden_images::pins;
use jiff::Timestamp;

use super::change::ChangeArguments;
use super::objects::ImageArgument;
use crate::controller::{ControllerArguments, WaitArguments};
use crate::governance::configs::MANAGER;
use crate::{exit, process};

/// Poll the source of an image now, and retry a failed import.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    image: ImageArgument,

    #[command(flatten)]
    change: ChangeArguments,

    #[command(flatten)]
    controller: ControllerArguments,

    #[command(flatten)]
    wait: WaitArguments,
}

/// Requests the poll.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    process::build_runtime()?.block_on(async {
        let selected = arguments.image.find().await?;
        let change = &arguments.change;
        let sender = (MANAGER, change.is_tried());
        let suffix = change.suffix();
        let mut lines = Vec::new();
        let mut requested = Vec::new();
        let is_checked = selected.variants().any(|it| it.cron.is_some());
        if is_checked {
            let controller = &arguments.controller;
            controller
                .check_poll(&selected.client, change.is_persisted())
                .await?;
        }
        for variant in selected.variants() {
            let now = Timestamp::now();
            if let Some(what) = pins::asked(variant, now) {
                requested.push((variant.data_source.clone(), variant.last_poll));
                if change.is_sent() {
                    let namespace = &selected.image.namespace;
                    edits::refresh(&selected.client, namespace, variant, sender, now).await?;
                }
                let (cron, _) = what.poll;
                lines.push(format!(
                    "dataimportcron.{GROUP}/{cron} will be polled{suffix}\n"
                ));
                lines.extend(what.retry.map(|(import, _)| {
                    format!("datavolume.{GROUP}/{import} will be retried{suffix}\n")
                }));
            }
        }
        if lines.is_empty() {
            bail!(
                "nothing imports {}: no DataImportCron manages a DataSource of it",
                selected.image.name
            );
        }
        exit::print(&lines.concat())?;
        if !arguments.wait.is_set() || !change.is_persisted() {
            return Ok(());
        }
        let polled = |it: &Variant| {
            let mut requested = requested.iter();
            requested.all(|(name, before)| *name != it.data_source || it.last_poll > *before)
        };
        let variants = arguments
            .image
            .wait_for(&selected, &arguments.wait, "the poll", polled)
            .await?;
        let lines = variants.iter().map(|it| {
            let newest = it.newest.as_deref().unwrap_or("nothing");
            format!("{} polled: the source offers {newest}\n", it.data_source)
        });
        exit::print(&lines.collect::<String>())
    })
}
