//! `medley images explain`: the state of an image.

use clap::Args;
use golden_images::overview::explain;
use jiff::Timestamp;
use serde_json::json;

use super::objects::ImageArgument;
use crate::output::{OutputArguments, explanation};
use crate::process;

/// Explain the state of an image.
///
/// Shows what its name resolves to and by which rule, what failed, when the operator retries, and
/// what you can do.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    image: ImageArgument,

    #[command(flatten)]
    output: OutputArguments,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let selected = process::build_runtime()?.block_on(arguments.image.find())?;
    let image = &selected.image;
    let all = explain(image, selected.architecture.as_deref(), Timestamp::now());
    let value = json!({ "namespace": image.namespace, "name": image.name, "dataSources": all });
    arguments.output.print(&value, || {
        let each = all
            .iter()
            .map(|it| explanation(&it.state, &it.because, &it.next));
        each.collect::<Vec<_>>().join("\n")
    })
}
