//! `medley images refresh`: the source of an image is asked at once.

use anyhow::bail;
use api::cdi::GROUP;
use clap::Args;
use golden_images::pins;
use jiff::Timestamp;
use kube::api::PatchParams;

use super::change::ChangeArguments;
use super::objects::ImageArgument;
use crate::governance::configs::MANAGER;
use crate::{exit, process};

/// Have the source of an image asked at once, whether it has something new, instead of when it is
/// scheduled; and have an import that failed tried again.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    image: ImageArgument,

    #[command(flatten)]
    change: ChangeArguments,
}

/// Asks for it.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    process::build_runtime()?.block_on(async {
        let asked = arguments.image.find().await?;
        let change = &arguments.change;
        let params = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            dry_run: change.is_tried(),
            ..PatchParams::default()
        };
        let suffix = change.suffix();
        let mut lines = Vec::new();
        for variant in asked.variants() {
            let now = Timestamp::now();
            if let Some(what) = pins::asked(variant, now) {
                if change.is_sent() {
                    let namespace = &asked.image.namespace;
                    edits::refresh(&asked.client, namespace, variant, &params, now).await?;
                }
                let (cron, _) = what.poll;
                lines.push(format!(
                    "dataimportcron.{GROUP}/{cron} is to be polled{suffix}\n"
                ));
                lines.extend(what.retry.map(|(import, _)| {
                    format!("datavolume.{GROUP}/{import} is to be tried again{suffix}\n")
                }));
            }
        }
        if lines.is_empty() {
            bail!(
                "nothing imports {}: no DataImportCron manages a DataSource of it",
                asked.image.name
            );
        }
        exit::print(&lines.concat())
    })
}
