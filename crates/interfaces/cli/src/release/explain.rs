//! `medley release explain`: the state of one operator in a release.

use ::release_migration::evaluate::Plan;
use ::release_migration::explain::{OperatorInputs, explain};
use anyhow::bail;
use clap::Args;
use governance::user_patches::list_valid_names;
use kube::ResourceExt;

use super::cluster::ReleaseArguments;
use crate::output::{OutputArguments, explanation};
use crate::process;

/// Explain whether an operator has completed a release, and why.
///
/// Shows the expected and the reported versions, the images that its pods run, and the next step.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Name of the operator's ClusterOperator.
    #[arg(value_name = "OPERATOR")]
    operator: String,

    #[command(flatten)]
    output: OutputArguments,

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
        let names: Vec<String> = read.operators.iter().map(ResourceExt::name_any).collect();
        let names = list_valid_names(&names);
        bail!("there is no ClusterOperator {name}; {names}");
    }
    let running = actual.map(|it| read.running(it)).unwrap_or_default();
    let evidence = actual.and_then(|it| read.evidence(it));
    let explained = explain(&OperatorInputs {
        name,
        actual,
        expected: expected.map(|it| &it.expected),
        running: &running,
        evidence: evidence.as_ref(),
        now: read.now,
    });
    arguments.output.print(&explained, || {
        explanation(&explained.state, &explained.because, &explained.next)
    })
}
