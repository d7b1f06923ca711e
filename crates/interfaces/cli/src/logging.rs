//! Logging to standard error. Filter and format are set at the start; the filter can be changed
//! later.

use std::io;
use std::sync::OnceLock;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};

use crate::otlp::TraceArguments;

/// Handle to change the log filter at run time.
static CHANGE: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();

/// Log flags of long-running commands.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct LogArguments {
    /// Log filter: error, warn, info, debug or trace, optionally by module, as in
    /// info,runtime=debug. A PUT to /loglevel changes it at run time. [default: $RUST_LOG, then -v]
    #[arg(long, value_name = "FILTER", env = "MEDLEY_LOG_LEVEL")]
    log_level: Option<String>,

    /// Format of log lines on standard error.
    #[arg(long, value_name = "FORMAT", env = "MEDLEY_LOG_FORMAT")]
    #[arg(value_enum, default_value_t)]
    log_format: LogFormat,
}

/// Formats of log lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// Human-readable text.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Starts logging with the filter of the flags, else `RUST_LOG`, else the number of `-v`.
pub(crate) fn start(
    verbose: u8,
    asked: &LogArguments,
    traces: &TraceArguments,
) -> anyhow::Result<()> {
    let filter = match (&asked.log_level, std::env::var("RUST_LOG")) {
        (Some(level), _) => parse(level)
            .map_err(anyhow::Error::msg)
            .context("--log-level")?,
        // `new` and not `try_new`: RUST_LOG may be set for other programs, and a directive that is
        // wrong here must not stop this one.
        (None, Ok(filter)) if !filter.is_empty() => EnvFilter::new(filter),
        _ => EnvFilter::new(by_count(verbose)),
    };
    let (filter, change) = reload::Layer::new(filter);
    let lines = fmt::layer().with_writer(io::stderr);
    let lines = match asked.log_format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    // Fails only if a program that embeds this library has already set a subscriber.
    if tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .with(traces.layer())
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

/// The current log filter.
pub(crate) fn level() -> String {
    let level = CHANGE
        .get()
        .and_then(|change| change.with_current(ToString::to_string).ok());
    level.unwrap_or_else(|| "off".to_owned())
}

/// Changes the log filter.
pub(crate) fn set_level(level: &str) -> Result<(), String> {
    let filter = parse(level)?;
    let change = CHANGE.get().ok_or("logging is disabled in this process")?;
    change
        .reload(filter)
        .map_err(|error| format!("changing the log filter: {error}"))?;
    tracing::info!(filter = level, "log filter changed");
    Ok(())
}

fn parse(level: &str) -> Result<EnvFilter, String> {
    // `EnvFilter` takes an empty filter for "errors only", which is never intended here.
    if level.trim().is_empty() {
        return Err(refusal(level, "it is empty"));
    }
    EnvFilter::try_new(level).map_err(|error| refusal(level, &error.to_string()))
}

fn refusal(level: &str, why: &str) -> String {
    format!(
        "{level:?} is not a log filter: {why}; expected error, warn, info, debug or trace, or MODULE=LEVEL, separated by commas"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_log_filters_are_rejected() {
        for level in ["info", "warn,runtime=debug", "runtime::cache=trace,error"] {
            assert!(parse(level).is_ok(), "{level}");
        }
        for level in ["", "  ", "runtime=loud", "info,=x=y"] {
            let refused = parse(level).unwrap_err();
            assert!(refused.contains("expected error, warn"), "{refused}");
        }
    }
}
