//! `medley explain`: the phase of a configuration, its reasons, and the next step.

use ::governance::explain::{Explanation, explain};
use clap::Args;
use serde_json::json;

use super::configs::ConfigArguments;
use crate::output::{OutputArguments, explanation};

/// Explain the phase of a configuration: why it is in it, and what it is waiting for.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    output: OutputArguments,

    #[command(flatten)]
    config: ConfigArguments,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    arguments.config.run(async |_, configs| {
        let name = &arguments.config.name;
        let Explanation {
            state,
            because,
            next,
        } = explain(&configs.get(name).await?);
        arguments.output.print(
            &json!({ "name": name, "state": state, "because": because, "next": next }),
            || explanation(&state, &because, &next),
        )
    })
}
