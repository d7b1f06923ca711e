//! Chores of the repository: `cargo xtask <chore>`.

mod audit;
mod bench;
mod fuzz;
mod generate;
mod shell;
mod test;
mod tidy;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Chores of the repository")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Run all tests, after making sure that the programs they need are there.
    Test(test::Arguments),
    /// Check dependencies: bans, licenses, sources and advisories. Installs cargo-deny if it is missing.
    Audit,
    /// Measure the server, beside etcd and kube-apiserver if KUBEBUILDER_ASSETS names them.
    Bench(bench::Arguments),
    /// Feed parsers with changed inputs, guided by coverage, and keep those that make them panic.
    Fuzz(fuzz::Arguments),
    /// Write generated files, or check that they are up to date.
    Generate(generate::Arguments),
    /// Check the rules of the house that no other tool checks.
    Tidy,
}

fn main() -> ExitCode {
    if let Some(code) = fuzz::compile() {
        return code;
    }
    let outcome = match Arguments::parse().chore {
        Chore::Test(arguments) => test::run(&arguments),
        Chore::Audit => audit::run(),
        Chore::Bench(arguments) => bench::run(&arguments),
        Chore::Fuzz(arguments) => fuzz::run(&arguments),
        Chore::Generate(arguments) => generate::run(&arguments),
        Chore::Tidy => tidy::run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to be done when even this cannot be written.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
