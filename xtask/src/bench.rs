//! `cargo xtask bench`.

use std::ffi::OsString;

use clap::Args;

use crate::shell;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Arguments for the benchmark; see `--help`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<OsString>,
}

/// Builds the release binary and benchmarks it from outside.
///
/// Both programs are built by one cargo call: separately, each would select other features of the
/// shared dependencies, which would then be built twice.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    shell::run(shell::cargo().args([
        "build",
        "--release",
        "--package",
        "medley",
        "--bin",
        "medley",
        "--package",
        "testkit",
        "--example",
        "bench",
    ]))?;
    let built = shell::target().join("release");
    shell::run(
        shell::command(built.join("examples/bench"))
            .arg(built.join("medley"))
            .args(&arguments.rest),
    )
}
