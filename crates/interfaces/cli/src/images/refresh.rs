//! `medley images refresh`: polls the source of an image now.

use anyhow::bail;
use api::cdi::GROUP;
use clap::Args;
use golden_images::pins;
use jiff::Timestamp;

use super::change::ChangeArguments;
use super::objects::ImageArgument;
use crate::governance::configs::MANAGER;
use crate::{exit, process};

/// Poll the source of an image now, and retry a failed import.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    image: ImageArgument,

    #[command(flatten)]
    change: ChangeArguments,
}

/// Requests the poll.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    process::build_runtime()?.block_on(async {
        let selected = arguments.image.find().await?;
        let change = &arguments.change;
        let sender = (MANAGER, change.is_tried());
        let suffix = change.suffix();
        let mut lines = Vec::new();
        for variant in selected.variants() {
            let now = Timestamp::now();
            if let Some(what) = pins::asked(variant, now) {
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
        exit::print(&lines.concat())
    })
}
