//! The command line of Medley: one module per command.
//!
//! Every command has the same structure: arguments (clap) become options (validated, with
//! defaults), and options are run. `medley` and `kubectl-medley` are the same binary, and so are
//! `kubectl_complete-medley`, which kubectl runs for completions, and `gather`, which `oc adm
//! must-gather` runs.

mod args;
mod check;
mod cluster;
mod completion;
mod config_file;
mod console;
mod controller;
mod cpu;
mod cri;
mod examples;
mod exit;
mod gather;
mod governance;
mod host;
mod images;
mod importer;
#[cfg(feature = "lab")]
mod lab;
mod layers;
mod logging;
mod man;
mod manifests;
mod metrics;
mod node_config;
mod otlp;
mod output;
mod place;
mod process;
mod profile;
mod read;
mod redact;
mod reference;
mod release;
mod run;
mod selector;
mod service;
mod snapshot;
mod status;
mod terminal;
mod uninstall;
mod version;
mod watch;
mod webhook;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::FromArgMatches as _;

use crate::args::{Arguments, Command};

pub use crate::args::command;
pub use crate::reference::references;

/// Runs one command line, with the program name first.
pub fn run(line: &[OsString]) -> ExitCode {
    #[cfg(feature = "lab")]
    // Before clap: the flags behind the shim's word are those of kube-apiserver and etcd, which
    // clap would reject.
    if let Some(outcome) = lab::envtest::shim(line) {
        return exit::outcome(outcome);
    }
    if args::stem(line.first()) == Some(completion::KUBECTL) {
        let words = line.get(1..).unwrap_or_default();
        return exit::outcome(completion::answer(words, command("kubectl-medley")));
    }
    let gathering = gather::by_name(line);
    let line = gathering.as_deref().unwrap_or(line);
    let name = args::program_name(line.first());
    // Before parsing, so that a required flag may come from the file, and its errors read as those
    // of flags.
    let completed = match config_file::complete(line, &command(name)) {
        Ok(completed) => completed,
        Err(error) => return exit::outcome(Err(error)),
    };
    let line = completed.as_deref().unwrap_or(line);
    let matches = match command(name).try_get_matches_from(line) {
        Ok(matches) => matches,
        Err(error) => return exit::usage(&error, line),
    };
    let arguments = match Arguments::from_arg_matches(&matches) {
        Ok(arguments) => arguments,
        Err(error) => return exit::usage(&error, line),
    };
    if let Err(error) = logging::start(
        arguments.verbose,
        &arguments.command.log(),
        &arguments.command.traces(),
    ) {
        return exit::outcome(Err(error));
    }
    let outcome = match arguments.command {
        #[cfg(feature = "lab")]
        Command::Up(arguments) => lab::up::run(arguments),
        Command::Run(arguments) => run::run(arguments),
        Command::Console(arguments) => console::run(&arguments),
        Command::Webhook(arguments) => webhook::run(&arguments),
        #[cfg(feature = "lab")]
        Command::Fleet(arguments) => lab::fleet::run(arguments),
        Command::Gather(arguments) => gather::run(&arguments),
        Command::Plan(arguments) => governance::plan::run(&arguments),
        // Exit code 1 means differences, so it is not mapped from an error.
        Command::Diff(arguments) => return governance::diff::run(&arguments),
        Command::Approve(arguments) => governance::approve::run(&arguments),
        Command::Reject(arguments) => governance::reject::run(&arguments),
        Command::Rollback(arguments) => governance::rollback::run(&arguments),
        Command::History(arguments) => governance::history::run(&arguments),
        Command::Audit(arguments) => governance::audit::run(&arguments),
        Command::Adopt(arguments) => governance::adopt::run(&arguments),
        Command::Explain(arguments) => governance::explain::run(&arguments),
        Command::Eject(arguments) => governance::eject::run(&arguments),
        Command::Profile(arguments) => profile::run(&arguments),
        Command::Image(arguments) => images::image(&arguments),
        Command::Images(arguments) => images::images(&arguments),
        Command::Cpu(arguments) => cpu::run(&arguments),
        Command::Cri(arguments) => cri::run(&arguments),
        Command::Release(arguments) => return release::run(&arguments),
        Command::Importer(arguments) => importer::run(&arguments),
        Command::Place(arguments) => place::run(&arguments),
        Command::NodeConfig(arguments) => node_config::run(&arguments),
        Command::Status(arguments) => status::run(&arguments),
        Command::Manifests(arguments) => manifests::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Uninstall(arguments) => uninstall::run(&arguments),
        Command::Snapshot(arguments) => snapshot::run(&arguments),
        #[cfg(feature = "lab")]
        Command::Apiserver(arguments) => lab::apiserver::run(arguments),
        #[cfg(feature = "lab")]
        Command::Envtest(arguments) => lab::envtest::run(&arguments),
        Command::Version(arguments) => version::run(&arguments),
        Command::Completion(arguments) => completion::run(&arguments, command(name)),
        Command::Man(arguments) => man::run(&arguments, command(name)),
    };
    exit::outcome(outcome)
}
