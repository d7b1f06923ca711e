//! `medley release explain`: the state of one operator in a release.

use ::release_migration::evaluate::Plan;
use ::release_migration::explain::{OperatorInputs, explain};
use anyhow::{Context as _, bail};
use clap::Args;
use kube::ResourceExt as _;

use super::cluster::ReleaseArguments;
use crate::governance::configs::list_valid_names;
use crate::governance::output::Data;
use crate::governance::render::section;
use crate::{exit, process};

/// Explain why an operator has or has not completed a release: expected and reported versions, the
/// images its pods run, and the next step.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  medley release explain machine-config
  medley release explain dns --release quay.io/x/release:4.18.0-multi -o yaml")]
pub(super) struct Arguments {
    /// The name of its ClusterOperator.
    #[arg(value_name = "OPERATOR")]
    operator: String,

    /// Output format; text by default.
    #[arg(short, long, value_enum)]
    output: Option<Data>,

    #[command(flatten)]
    release: ReleaseArguments,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let name = arguments.operator.as_str();
    let read = process::build_runtime()?.block_on(arguments.release.read())?;
    let actual = read.operators.iter().find(|it| it.name_any() == name);
    let mut wanted = read.plan.iter().flat_map(Plan::operators);
    let expected = wanted.find(|it| it.name == name);
    if actual.is_none() && expected.is_none() {
        let names: Vec<String> = read
            .operators
            .iter()
            .map(kube::ResourceExt::name_any)
            .collect();
        bail!(
            "there is no ClusterOperator {name}; {}",
            list_valid_names(&names)
        );
    }
    let running = actual.map(|it| read.running(it)).unwrap_or_default();
    let evidence = actual.and_then(|it| read.evidence(it));
    let explanation = explain(&OperatorInputs {
        name,
        actual,
        expected: expected.map(|it| &it.expected),
        running: &running,
        evidence: evidence.as_ref(),
        now: read.now,
    });
    let text = match arguments.output {
        Some(form) => {
            let value = serde_json::to_value(&explanation).context("writing the result")?;
            form.write(&value)?
        }
        None => format!(
            "{}\n{}{}",
            explanation.state,
            section("Because", &explanation.because),
            section("Next", &explanation.next)
        ),
    };
    exit::print(&text)
}
