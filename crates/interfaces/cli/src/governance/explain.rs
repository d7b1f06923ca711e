//! `medley explain`: the phase of a configuration, its reasons, and the next step.

use ::governance::explain::{Explanation, explain};
use clap::Args;
use serde_json::json;

use super::configs::configs;
use super::output::Data;
use super::render::section;
use crate::cluster::ClusterArguments;
use crate::{exit, process};

/// Explain the phase of a configuration, and what it waits for.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The configuration.
    name: String,

    /// Output format; text by default.
    #[arg(short, long, value_enum)]
    output: Option<Data>,

    #[command(flatten)]
    cluster: ClusterArguments,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    process::build_runtime()?.block_on(async {
        let configs = configs(&arguments.cluster.client().await?);
        let Explanation {
            state,
            because,
            next,
        } = explain(&configs.get(&arguments.name).await?);
        let text = match arguments.output {
            Some(data) => data.write(&json!({
                "name": arguments.name, "state": state, "because": because, "next": next,
            }))?,
            None => format!(
                "{state}\n{}{}",
                section("Because", &because),
                section("Next", &next)
            ),
        };
        exit::print(&text)
    })
}
