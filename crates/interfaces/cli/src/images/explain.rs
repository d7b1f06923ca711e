//! `medley images explain`: the state of an image.

use clap::Args;
use golden_images::overview::explain;
use jiff::Timestamp;
use serde_json::json;

use super::objects::ImageArgument;
use crate::governance::output::Data;
use crate::governance::render::section;
use crate::{exit, process};

/// Explain the state of an image: what its name resolves to and by which rule, what failed, when it
/// is retried, and the next step.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    image: ImageArgument,

    /// Output format; text by default.
    #[arg(short, long, value_enum)]
    output: Option<Data>,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let selected = process::build_runtime()?.block_on(arguments.image.find())?;
    let all = explain(
        &selected.image,
        selected.architecture.as_deref(),
        Timestamp::now(),
    );
    if let Some(data) = arguments.output {
        return exit::print(&data.write(&json!({
            "namespace": selected.image.namespace, "name": selected.image.name, "dataSources": all,
        }))?);
    }
    let each: Vec<String> = all
        .iter()
        .map(|it| {
            let because = section("Because", &it.because);
            format!("{}\n{because}{}", it.state, section("Next", &it.next))
        })
        .collect();
    exit::print(&each.join("\n"))
}
