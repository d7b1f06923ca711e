//! `medley release lint`: finds errors in a release before it is applied.

use ::release_migration::adoption::Adoption;
use ::release_migration::lint::{Finding, Severity, lint};
use anyhow::bail;
use clap::Args;
use serde_json::json;

use super::source::PayloadArgument;
use crate::governance::output::{Data, table};
use crate::images::inspect::printable;
use crate::{exit, process};

/// Find errors in a release: operators that do not report their images, unresolved placeholders,
/// images by tag, names out of order.
///
/// The exit code is 1 if there are errors, or with --strict if there are warnings.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  medley release lint release
  medley release lint --strict -o json quay.io/x/release:4.18.0-multi")]
pub(super) struct Arguments {
    #[command(flatten)]
    payload: PayloadArgument,

    /// Fail on warnings, too.
    #[arg(long)]
    strict: bool,

    /// Output format; a table by default.
    #[arg(short, long, value_enum)]
    output: Option<Data>,
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
    let text = match arguments.output {
        Some(form) => form.write(&json!({
            "release": found.name,
            "errors": errors,
            "warnings": warnings,
            "adoption": adoption,
            "findings": findings,
        }))?,
        None => format!(
            "{}{}{errors} errors, {warnings} warnings\n",
            rows(&findings),
            adoption.map(|it| format!("{it}\n")).unwrap_or_default()
        ),
    };
    exit::print(&text)?;
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
    format!("{}\n", table(headers, rows.collect()))
}
