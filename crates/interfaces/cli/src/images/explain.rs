//! `medley images explain`: why it is with an image as it is, and what would help.

use clap::Args;
use golden_images::overview::explain;
use jiff::Timestamp;
use serde_json::json;

use super::objects::ImageArgument;
use crate::governance::output::Data;
use crate::governance::render::section;
use crate::{exit, process};

/// Explain why it is with an image as it is: what its name stands for and by which rule, what failed,
/// when it is tried again, and what would help.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    image: ImageArgument,

    /// Form of the output; text if absent.
    #[arg(short, long, value_enum)]
    output: Option<Data>,
}

/// Explains.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let asked = process::build_runtime()?.block_on(arguments.image.find())?;
    let all = explain(
        &asked.image,
        asked.architecture.as_deref(),
        Timestamp::now(),
    );
    if let Some(data) = arguments.output {
        return exit::print(&data.write(&json!({
            "namespace": asked.image.namespace, "name": asked.image.name, "dataSources": all,
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
