//! `cargo xtask bench`.

use std::ffi::OsString;

use clap::Args;

use crate::shell;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// More arguments for the benchmark; `--help` tells which.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<OsString>,
}

/// Builds the binary as it is released and measures it from outside.
///
/// Both programs come from one call of cargo: apart, each would pick other features of the
/// dependencies they share, and those would be built twice.
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
