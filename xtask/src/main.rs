//! Repository tasks: `cargo xtask <task>`.

mod audit;
mod bench;
mod fuzz;
mod generate;
mod peers;
mod shell;
mod test;
mod tidy;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Repository tasks")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Run all tests, after installing or checking the programs they need.
    Test(test::Arguments),
    /// Check dependencies: bans, licenses, sources and advisories. Installs cargo-deny if it is missing.
    Audit,
    /// Run benchmarks, side by side with etcd and kube-apiserver if KUBEBUILDER_ASSETS is set.
    Bench(bench::Arguments),
    /// Fuzz the parsers of untrusted input with libFuzzer.
    Fuzz(fuzz::Arguments),
    /// Write generated files, or check that they are up to date.
    Generate(generate::Arguments),
    /// Build programs of other projects, such as etcd and kube-apiserver, that suites run beside.
    Peers(peers::Arguments),
    /// Check repository rules that no other tool checks.
    Tidy,
}

fn main() -> ExitCode {
    if let Some(code) = fuzz::compile() {
        return code;
    }
    let outcome = match Arguments::parse().task {
        Task::Test(arguments) => test::run(&arguments),
        Task::Audit => audit::run(),
        Task::Bench(arguments) => bench::run(&arguments),
        Task::Fuzz(arguments) => fuzz::run(&arguments),
        Task::Generate(arguments) => generate::run(&arguments),
        Task::Peers(arguments) => peers::run(&arguments),
        Task::Tidy => tidy::run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // There is no other place to report the error.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
