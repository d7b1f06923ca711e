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
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let build = ["build", "--release", "--package", "medley"];
    shell::run(shell::cargo().args(build))?;
    let binary = shell::target().join("release/medley");
    shell::run(
        shell::cargo()
            .args([
                "run",
                "--release",
                "--quiet",
                "--package",
                "testkit",
                "--example",
                "bench",
                "--",
            ])
            .arg(binary)
            .args(&arguments.rest),
    )
}
