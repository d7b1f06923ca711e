//! `medley profile lint`: the static check of a profile.

use std::fmt::Write as _;

use anyhow::bail;
use clap::Args;

use super::source::{ProfileArguments, line};
use crate::{exit, process};

/// Check a profile: its form, the types and costs of its expressions, what is never used, and the permissions that the
/// operator needs for it. Fails if the operator would not use it.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    profile: ProfileArguments,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let checked = process::build_runtime()?.block_on(arguments.profile.check())?;
    let findings = &checked.compiled.findings;
    let mut text = String::new();
    for finding in findings {
        let word = if finding.error { "error" } else { "warning" };
        writeln!(text, "{word}: {}", line(finding))?;
    }
    let errors = findings.iter().filter(|finding| finding.error).count();
    if let Some(profile) = &checked.compiled.profile {
        text.push_str("The operator needs these permissions:\n");
        for rule in profile.rules() {
            let group = rule.api_groups.iter().flatten().next();
            let group = group.filter(|group| !group.is_empty());
            let group = group.map(|group| format!(".{group}")).unwrap_or_default();
            let resources = rule.resources.unwrap_or_default().join(", ");
            writeln!(text, "  {resources}{group}: {}", rule.verbs.join(", "))?;
        }
    }
    exit::print(&text)?;
    if errors > 0 {
        let plural = if errors == 1 { "" } else { "s" };
        bail!("{} has {errors} error{plural}", arguments.profile.profile);
    }
    Ok(())
}
