//! `medley images refresh`: the source of an image is asked at once.

use anyhow::bail;
use api::cdi::{DataImportCron, DataVolume, GROUP, annotations};
use api::golden::names;
use clap::Args;
use jiff::{SignedDuration, Timestamp};
use kube::Api;
use kube::api::{Patch, PatchParams};
use machinery::time::format_time;
use serde_json::json;

use super::change::ChangeArguments;
use super::objects::ImageArgument;
use crate::governance::configs::{MANAGER, said};
use crate::{exit, runtime};

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
    runtime::build()?.block_on(async {
        let asked = arguments.image.find().await?;
        let namespace = &asked.image.namespace;
        let crons: Api<DataImportCron> = Api::namespaced(asked.client.clone(), namespace);
        let volumes: Api<DataVolume> = Api::namespaced(asked.client.clone(), namespace);
        let change = &arguments.change;
        let params = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            dry_run: change.is_tried(),
            ..PatchParams::default()
        };
        let suffix = change.suffix();
        let mut lines = Vec::new();
        for variant in asked.variants() {
            let Some(name) = &variant.cron else { continue };
            let now = Timestamp::now();
            // Times have whole seconds: one that is not later than the last poll would say nothing.
            let second = SignedDuration::from_secs(1);
            let after = variant.last_poll.and_then(|it| it.checked_add(second).ok());
            let at = after.map_or(now, |after| after.max(now));
            let patch = Patch::Merge(json!({ "metadata": { "annotations": {
                annotations::NEXT_CRON_TIME: format_time(at),
            } } }));
            if change.is_sent() {
                let sent = crons.patch(name, &params, &patch).await;
                sent.map_err(|error| {
                    said(error).context(format!("changing DataImportCron {name}"))
                })?;
            }
            lines.push(format!(
                "dataimportcron.{GROUP}/{name} is to be polled{suffix}\n"
            ));
            let Some(import) = variant.importing.as_ref().filter(|_| variant.import_failed) else {
                continue;
            };
            let patch = Patch::Merge(json!({ "metadata": { "annotations": {
                names::NEXT_RETRY: format_time(now),
            } } }));
            if change.is_sent() {
                let sent = volumes.patch(import, &params, &patch).await;
                sent.map_err(|error| said(error).context(format!("changing DataVolume {import}")))?;
            }
            lines.push(format!(
                "datavolume.{GROUP}/{import} is to be tried again{suffix}\n"
            ));
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
