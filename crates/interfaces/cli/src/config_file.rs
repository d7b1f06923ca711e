//! Settings of long-running commands from a file: `--config FILE`.
//!
//! The file maps flag names to values, in YAML. Command line and environment take precedence.
//! Values are turned into flags before parsing, so that they have the same meaning and the same
//! error messages.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command};
use serde_json::Value;

/// The environment variable that names the file.
const VARIABLE: &str = "MEDLEY_CONFIG";
/// clap id of the flag: other commands have a `--config` of their own.
const ID: &str = "settings_file";
/// Flags that the file cannot set.
const NEVER: [&str; 4] = ["config", "help", "verbose", "version"];

/// The `--config` flag.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ConfigArguments {
    /// YAML file with values of flags by name, such as `controllers: [governance, release]`. The
    /// command line and environment variables take precedence.
    #[arg(id = ID, long = "config", value_name = "FILE", env = VARIABLE)]
    config: Option<PathBuf>,
}

/// The command line with the flags of the file added; `None` if no file is named.
pub(crate) fn complete(
    line: &[OsString],
    command: &Command,
) -> anyhow::Result<Option<Vec<OsString>>> {
    let named = line
        .iter()
        .filter_map(|word| word.to_str())
        .any(|word| word == "--config" || word.starts_with("--config="));
    // Most command lines name no file, and then the second parse below is not needed.
    if !named && std::env::var_os(VARIABLE).is_none() {
        return Ok(None);
    }
    // Errors are reported after the file is read: it may hold a required flag.
    let lenient = command.clone().ignore_errors(true);
    let Ok(matches) = lenient.try_get_matches_from(line) else {
        return Ok(None);
    };
    let Some((name, given)) = matches.subcommand() else {
        return Ok(None);
    };
    let Some(command) = command.find_subcommand(name) else {
        return Ok(None);
    };
    let Ok(Some(path)) = given.try_get_one::<PathBuf>(ID) else {
        return Ok(None);
    };
    let mut line = line.to_vec();
    line.extend(read(path, command, given)?);
    Ok(Some(line))
}

/// The flags that a file adds.
fn read(path: &Path, command: &Command, given: &ArgMatches) -> anyhow::Result<Vec<OsString>> {
    let what = || format!("reading the settings in {}", path.display());
    let text = std::fs::read_to_string(path).with_context(what)?;
    flags(&text, command, given).with_context(what)
}

fn flags(text: &str, command: &Command, given: &ArgMatches) -> anyhow::Result<Vec<OsString>> {
    let settings: BTreeMap<String, Value> = if text.trim().is_empty() {
        BTreeMap::new()
    } else {
        serde_saphyr::from_str(text).context("expected a map of flag names to values")?
    };
    let mut flags = Vec::new();
    for (name, value) in settings {
        let Some(argument) = find(command, &name) else {
            let mut known: Vec<&str> = accepted(command).filter_map(Arg::get_long).collect();
            known.sort_unstable();
            bail!(
                "unknown setting {name:?}; expected one of: {}",
                known.join(", ")
            );
        };
        let source = given.value_source(argument.get_id().as_str());
        if !matches!(
            source,
            Some(ValueSource::CommandLine | ValueSource::EnvVariable)
        ) {
            flags.extend(flag(&name, argument, &value)?);
        }
    }
    Ok(flags)
}

/// The arguments that a file may set.
fn accepted(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|argument| {
        let long = argument.get_long();
        long.is_some_and(|long| !NEVER.contains(&long)) && !argument.is_hide_set()
    })
}

fn find<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    accepted(command).find(|argument| argument.get_long() == Some(name))
}

/// A setting as a flag.
fn flag(name: &str, argument: &Arg, value: &Value) -> anyhow::Result<Vec<OsString>> {
    let is_switch = matches!(argument.get_action(), ArgAction::SetTrue);
    let several = matches!(argument.get_action(), ArgAction::Append)
        || argument.get_value_delimiter().is_some();
    let as_flag = |text: String| OsString::from(format!("--{name}={text}"));
    match value {
        Value::Bool(on) if is_switch => Ok(on
            .then(|| OsString::from(format!("--{name}")))
            .into_iter()
            .collect()),
        _ if is_switch => bail!("{name} is {value}; expected true or false"),
        Value::Array(values) if several => values
            .iter()
            .map(|value| match plain(value) {
                Some(text) => Ok(as_flag(text)),
                None => bail!("{name} has {value} in its list; expected text, numbers or booleans"),
            })
            .collect(),
        Value::Array(_) => bail!("{name} is {value}; expected one value, not a list"),
        value => match plain(value) {
            Some(text) => Ok(vec![as_flag(text)]),
            None => bail!("{name} is {value}; expected text, a number or a boolean"),
        },
    }
}

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
