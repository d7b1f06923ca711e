//! What the program tells about its work, on standard error: how much, and in which form. Both can be said
//! at the start, and how much at any time after.

use std::io;
use std::sync::OnceLock;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};

use crate::otlp::{Collect, TraceArguments};

/// What can be changed while the program runs.
static CHANGE: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();

/// How processes log that run for long.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct LogArguments {
    /// How much to log: error, warn, info, debug or trace, also by module, as in info,runtime=debug.
    /// While it runs, PUT /loglevel changes it. [default: $RUST_LOG, then what -v says]
    #[arg(long, value_name = "FILTER", env = "MEDLEY_LOG_LEVEL")]
    log_level: Option<String>,

    /// The form of log lines on standard error.
    #[arg(
        long,
        value_name = "FORMAT",
        env = "MEDLEY_LOG_FORMAT",
        value_enum,
        default_value_t
    )]
    log_format: LogFormat,
}

/// The form of log lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For programs: one JSON object a line.
    Json,
}

/// Starts logging: what is asked for, else `RUST_LOG`, else by the number of `-v`.
pub(crate) fn start(
    verbose: u8,
    asked: &LogArguments,
    traces: &TraceArguments,
) -> anyhow::Result<()> {
    let filter = match (&asked.log_level, std::env::var("RUST_LOG")) {
        (Some(level), _) => parse(level)
            .map_err(anyhow::Error::msg)
            .context("--log-level")?,
        (None, Ok(filter)) if !filter.is_empty() => EnvFilter::new(filter),
        _ => EnvFilter::new(by_count(verbose)),
    };
    let (filter, change) = reload::Layer::new(filter);
    let lines = fmt::layer().with_writer(io::stderr);
    let lines = match asked.log_format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    // Fails only when a program that embeds the command line logs already.
    let traces = traces.collect();
    let traces = traces.map(|collect| collect.with_filter(filter_fn(Collect::wants)));
    if tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .with(traces)
        .try_init()
        .is_ok()
    {
        let _ = CHANGE.set(change);
    }
    Ok(())
}

fn by_count(verbose: u8) -> &'static str {
    match verbose {
        0 => "warn",
        1 => "info",
        2 => "debug",
        _ => "trace",
    }
}

/// How much is logged.
pub(crate) fn level() -> String {
    let level = CHANGE
        .get()
        .and_then(|change| change.with_current(ToString::to_string).ok());
    level.unwrap_or_else(|| "off".to_owned())
}

/// Logs more or less from now on.
pub(crate) fn set_level(level: &str) -> Result<(), String> {
    let filter = parse(level)?;
    let change = CHANGE.get().ok_or("nothing is logged by this process")?;
    change
        .reload(filter)
        .map_err(|error| format!("changing what is logged: {error}"))?;
    tracing::info!(filter = level, "what is logged has changed");
    Ok(())
}

fn parse(level: &str) -> Result<EnvFilter, String> {
    // An empty one would switch everything off but errors, which nobody means.
    if level.trim().is_empty() {
        return Err(refusal(level, "it is empty"));
    }
    EnvFilter::try_new(level).map_err(|error| refusal(level, &error.to_string()))
}

fn refusal(level: &str, why: &str) -> String {
    format!(
        "{level:?} does not say how much to log: {why}; expected error, warn, info, debug or trace, or MODULE=LEVEL, separated by commas"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_that_make_no_sense_are_refused() {
        for level in ["info", "warn,runtime=debug", "runtime::cache=trace,error"] {
            assert!(parse(level).is_ok(), "{level}");
        }
        for level in ["", "  ", "runtime=loud", "info,=x=y"] {
            let refused = parse(level).unwrap_err();
            assert!(refused.contains("expected error, warn"), "{refused}");
        }
    }
}
