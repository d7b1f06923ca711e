//! `medley diff`: what a plan would change, line by line.

use std::process::ExitCode;

use ::governance::diff;
use clap::{Args, ValueEnum};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::plan::impossible;
use super::planning::{Attempt, Planned, PlanningArguments};
use crate::output::{self, Data, list};
use crate::{exit, process};

/// Plan configurations now, and show the changes as unified diffs.
///
/// The exit code is 0 if nothing would change, 1 if something would, and 2 on errors, as in
/// `kubectl diff`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    planning: PlanningArguments,

    /// Output format.
    /// [default: unified diffs]
    #[arg(short, long, value_enum)]
    output: Option<Output>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Output {
    Json,
    Yaml,
    /// Only the names of the changed objects, one per line.
    Name,
}

/// Change of one object.
struct Change {
    value: Value,
    text: String,
    name: String,
}

/// Prints the differences; the exit code reports whether there are any.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    match compare(arguments) {
        Ok(false) => ExitCode::SUCCESS,
        Ok(true) => ExitCode::from(1),
        Err(error) => exit::failure(&error, 2),
    }
}

/// Whether something would change.
fn compare(arguments: &Arguments) -> anyhow::Result<bool> {
    process::build_runtime()?.block_on(async {
        let attempts = arguments.planning.plan(None).await?;
        let changes: Vec<Change> = attempts
            .iter()
            .filter_map(|attempt| match attempt {
                Attempt::Planned(planned) => Some(changes(planned)),
                Attempt::Impossible { .. } => None,
            })
            .flatten()
            .collect();
        exit::print(&write(&changes, arguments.output)?)?;
        // After printing: the differences of the other configurations are of use, and the exit code
        // is still 2.
        impossible(&attempts)?;
        Ok(!changes.is_empty())
    })
}

/// The changes of a plan, untruncated. A plan that changes nothing but Medley's own annotations is
/// not applied.
fn changes(planned: &Planned) -> Vec<Change> {
    if planned.plan.changes_nothing {
        return Vec::new();
    }
    let config = planned.config.name_any();
    let items = planned.plan.items.iter().zip(&planned.previews);
    let changes = items.map(|(item, preview)| {
        let target = &item.target_ref;
        let text = diff::whole(
            preview.live.as_ref(),
            preview.result.as_ref(),
            &target.name,
            &target.kind,
        );
        Change {
            value: json!({
                "config": config,
                "item": item.name,
                "operation": item.operation,
                "targetRef": target,
                "diff": text,
            }),
            name: format!("{}/{}", target.kind.to_lowercase(), target.name),
            text,
        }
    });
    changes
        .filter(|change| !diff::is_no_change(&change.text))
        .collect()
}

fn write(changes: &[Change], output: Option<Output>) -> anyhow::Result<String> {
    let values: Vec<_> = changes.iter().map(|change| &change.value).collect();
    let lines = |line: fn(&Change) -> String| changes.iter().map(line).collect();
    match output {
        None => Ok(lines(|change| output::diff(&change.text))),
        Some(Output::Json) => Data::Json.write(&list(&values)),
        Some(Output::Yaml) => Data::Yaml.write(&list(&values)),
        Some(Output::Name) => Ok(lines(|change| format!("{}\n", change.name))),
    }
}
