//! `medley profile test`: cases of a profile, with objects and the expected items.

use std::fmt::Write as _;
use std::path::PathBuf;

use ::governance::Profile as _;
use ::governance::profile::data::{DataProfile, objects};
use anyhow::{Context as _, bail};
use api::advisor::ProfileOptions;
use clap::Args;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::source::ProfileArguments;
use crate::{exit, process, read};

/// Run the cases of a profile. Needs no cluster.
///
/// A file of cases is a list: each has a name, options, objects, and either items, the expected items by name with the
/// fields to compare (impact, message, object), or refused, a part of the expected error. With warnings, the expected
/// warnings are compared as well.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    profile: ProfileArguments,

    /// File with the cases, in YAML.
    #[arg(short, long, value_name = "FILE")]
    cases: PathBuf,
}

/// A case.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(default)]
    options: Map<String, Value>,
    #[serde(default)]
    objects: Vec<Value>,
    #[serde(default)]
    items: Option<Map<String, Value>>,
    #[serde(default)]
    warnings: Option<Vec<String>>,
    #[serde(default)]
    refused: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (_, profile) = process::build_runtime()?.block_on(arguments.profile.compiled())?;
    let what = || format!("reading cases from {}", arguments.cases.display());
    let cases = read::file(&arguments.cases)?;
    let cases: Vec<Case> = serde_saphyr::from_str(&cases).with_context(what)?;
    let (mut text, mut failed) = (String::new(), 0);
    for case in &cases {
        let differences = differences(&profile, case);
        let word = if differences.is_empty() {
            "ok"
        } else {
            "FAILED"
        };
        writeln!(text, "{}: {word}", case.name)?;
        for difference in &differences {
            writeln!(text, "  {difference}")?;
        }
        failed += usize::from(!differences.is_empty());
    }
    exit::print(&text)?;
    if failed > 0 {
        bail!("{failed} of {} cases failed", cases.len());
    }
    if cases.is_empty() {
        bail!("{}: there are no cases", what());
    }
    Ok(())
}

/// What differs from the expectations of a case.
fn differences(profile: &DataProfile, case: &Case) -> Vec<String> {
    let options = ProfileOptions {
        values: Some(case.options.clone()),
        ..ProfileOptions::default()
    };
    let wanted = objects::snapshot(profile.uses(), case.objects.clone()).and_then(|snapshot| {
        let intents = profile.intents(&options, &snapshot);
        intents.map_err(|refusal| refusal.to_string())
    });
    let wanted = match (wanted, &case.refused) {
        (Err(error), Some(part)) if error.contains(part) => return Vec::new(),
        (Err(error), Some(part)) => {
            return vec![format!("refused with {error:?}, expected {part:?}")];
        }
        (Err(error), None) => return vec![format!("refused: {error}")],
        (Ok(_), Some(part)) => return vec![format!("not refused, expected {part:?}")],
        (Ok(wanted), None) => wanted,
    };
    let mut found = Vec::new();
    if let Some(expected) = &case.items {
        let names: Vec<&str> = wanted.items.iter().map(|item| item.name).collect();
        let missing = expected
            .keys()
            .filter(|name| !names.contains(&name.as_str()));
        found.extend(missing.map(|name| format!("there is no item {name}")));
        for item in &wanted.items {
            let Some(expected) = expected.get(item.name) else {
                found.push(format!("there is an item {}", item.name));
                continue;
            };
            let actual = json!({
                "impact": item.impact,
                "message": item.message,
                "object": item.desired,
            });
            compare(item.name, expected, &actual, &mut found);
        }
    }
    if let Some(expected) = &case.warnings
        && *expected != wanted.warnings
    {
        found.push(format!(
            "warnings are {:?}, expected {expected:?}",
            wanted.warnings
        ));
    }
    found
}

/// Compares the fields that are expected; others may have any value.
fn compare(at: &str, expected: &Value, actual: &Value, found: &mut Vec<String>) {
    match (expected, actual) {
        (Value::Object(expected), Value::Object(fields)) => {
            for (name, expected) in expected {
                let field = fields.get(name).unwrap_or(&Value::Null);
                compare(&format!("{at}.{name}"), expected, field, found);
            }
        }
        (expected, actual) if expected == actual => {}
        (expected, actual) => found.push(format!("{at} is {actual}, expected {expected}")),
    }
}
