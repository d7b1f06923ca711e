//! What the program tells about its work, on standard error.

use std::io;

use tracing_subscriber::EnvFilter;

/// Starts logging: `RUST_LOG` if it is there, else by the number of `-v`.
pub(crate) fn start(verbose: u8) {
    let level = match verbose {
        0 => "warn",
        1 => "info",
        2 => "debug",
        _ => "trace",
    };
    let filter = match std::env::var("RUST_LOG") {
        Ok(filter) if !filter.is_empty() => EnvFilter::new(filter),
        _ => EnvFilter::new(level),
    };
    // Fails only when a program that embeds the command line logs already.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .try_init();
}
