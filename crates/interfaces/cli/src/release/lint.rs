//! `medley release lint`: finds errors in a release before it is applied.

use ::release_migration::adoption::Adoption;
use ::release_migration::lint::{Finding, Severity, lint};
use anyhow::bail;
use clap::Args;
use serde_json::json;

use super::source::PayloadArgument;
use crate::images::inspect::printable;
use crate::output::{OutputArguments, table};
use crate::process;

/// Find errors in the manifests of a release.
///
/// Checks for operators that do not report their images, unresolved placeholders, images referenced
/// by tag, and file names out of order. The exit code is 1 if there are errors or, with --strict,
/// warnings.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    payload: PayloadArgument,

    /// Also fail on warnings.
    #[arg(long)]
    strict: bool,

    #[command(flatten)]
    output: OutputArguments,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let found = process::build_runtime()?.block_on(arguments.payload.read())?;
    let findings = lint(&found.files);
    let errors = findings
        .iter()
        .filter(|it| it.severity == Severity::Error)
        .count();
    let warnings = findings.len() - errors;
    let adoption = found.payload().ok().map(|payload| {
        let operators = payload.operators();
        Adoption::of(operators.iter().map(|it| (it.name.as_str(), &it.expected)))
    });
    let value = json!({
        "release": found.name,
        "errors": errors,
        "warnings": warnings,
        "adoption": adoption,
        "findings": findings,
    });
    arguments.output.print(&value, || {
        let adoption = adoption.map(|it| format!("{it}\n")).unwrap_or_default();
        let rows = rows(&findings);
        format!("{rows}{adoption}{errors} errors, {warnings} warnings\n")
    })?;
    if errors > 0 || (arguments.strict && warnings > 0) {
        bail!("{} has {errors} errors and {warnings} warnings", found.name);
    }
    Ok(())
}

/// Findings as a table; empty if there are none.
fn rows(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return String::new();
    }
    let rows = findings.iter().map(|it| {
        [
            it.severity.to_string(),
            it.rule.to_string(),
            printable(it.operator.as_deref().unwrap_or_default()),
            printable(&it.file),
            it.message.chars().filter(|c| !c.is_control()).collect(),
        ]
    });
    let headers = ["SEVERITY", "RULE", "OPERATOR", "FILE", "MESSAGE"];
    format!("{}\n", table(&headers, rows))
}
