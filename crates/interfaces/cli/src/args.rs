//! The command line.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{CommandFactory as _, Parser, Subcommand};

#[cfg(feature = "lab")]
use crate::lab::{apiserver, envtest, fleet, up};
use crate::logging::LogArguments;
use crate::otlp::TraceArguments;
use crate::{
    check, completion, console, cpu, cri, examples, gather, governance, images, importer, man,
    manifests, node_config, place, profile, release, run, snapshot, status, uninstall, version,
    webhook,
};

/// One operator for heterogeneous Kubernetes clusters.
#[derive(Debug, Parser)]
#[command(version, propagate_version = false, disable_help_subcommand = false)]
pub(crate) struct Arguments {
    /// Increase log verbosity: -v for info, -vv for debug, -vvv for trace. To filter by module, set
    /// the environment variable RUST_LOG instead.
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    pub(crate) verbose: u8,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[cfg(feature = "lab")]
    Up(up::Arguments),
    Run(run::Arguments),
    Console(console::Arguments),
    Webhook(webhook::Arguments),
    Manifests(manifests::Arguments),
    Check(check::Arguments),
    Uninstall(uninstall::Arguments),
    #[cfg(feature = "lab")]
    Fleet(fleet::Arguments),
    Status(status::Arguments),
    Gather(gather::Arguments),
    Plan(governance::plan::Arguments),
    Diff(governance::diff::Arguments),
    Approve(governance::approve::Arguments),
    Reject(governance::reject::Arguments),
    Rollback(governance::rollback::Arguments),
    History(governance::history::Arguments),
    Audit(governance::audit::Arguments),
    Adopt(governance::adopt::Arguments),
    Explain(governance::explain::Arguments),
    Eject(governance::eject::Arguments),
    Profile(profile::Arguments),
    Image(images::ImageArguments),
    Images(images::ImagesArguments),
    Cpu(cpu::CpuArguments),
    Cri(cri::Arguments),
    Place(place::Arguments),
    NodeConfig(node_config::Arguments),
    Release(release::Arguments),
    Importer(importer::Arguments),
    Snapshot(snapshot::Arguments),
    #[cfg(feature = "lab")]
    Apiserver(apiserver::Arguments),
    #[cfg(feature = "lab")]
    Envtest(envtest::Arguments),
    Version(version::Arguments),
    Completion(completion::Arguments),
    Man(man::Arguments),
}

impl Command {
    /// The log settings of this command.
    pub(crate) fn log(&self) -> LogArguments {
        match self {
            Self::Run(arguments) => arguments.service.log.clone(),
            Self::Webhook(arguments) => arguments.service.log.clone(),
            _ => LogArguments::default(),
        }
    }

    /// The trace export settings of this command.
    pub(crate) fn traces(&self) -> TraceArguments {
        match self {
            Self::Run(arguments) => arguments.service.traces.clone(),
            Self::Webhook(arguments) => arguments.service.traces.clone(),
            Self::Importer(arguments) => arguments.traces.clone(),
            _ => TraceArguments::default(),
        }
    }
}

/// The names the binary is installed under. kubectl finds plugins by the second one.
const NAMES: [&str; 2] = ["medley", "kubectl-medley"];

/// File name of the program in `argv[0]`.
pub(crate) fn stem(argument: Option<&OsString>) -> Option<&str> {
    argument
        .and_then(|path| Path::new(path).file_stem())
        .and_then(OsStr::to_str)
}

/// The entry of [`NAMES`] that the binary was called by.
pub(crate) fn program_name(argument: Option<&OsString>) -> &'static str {
    let stem = stem(argument);
    NAMES
        .into_iter()
        .find(|name| Some(*name) == stem)
        .unwrap_or(NAMES[0])
}

/// The clap command under one of the binary's names.
pub fn command(name: &'static str) -> clap::Command {
    let command = examples::add(Arguments::command()).name(name);
    // A plugin is called through kubectl, so its usage reads `kubectl medley`.
    if name == "kubectl-medley" {
        command.bin_name("kubectl medley")
    } else {
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        for name in NAMES {
            command(name).debug_assert();
        }
    }

    #[test]
    fn the_name_follows_the_file() {
        for (path, expected) in [
            ("medley", "medley"),
            ("/usr/bin/medley", "medley"),
            ("/some where/kubectl-medley", "kubectl-medley"),
            ("kubectl-medley.exe", "kubectl-medley"),
            ("other", "medley"),
            ("", "medley"),
        ] {
            assert_eq!(program_name(Some(&path.into())), expected, "{path}");
        }
        assert_eq!(program_name(None), "medley");
    }

    #[test]
    fn a_plugin_is_called_through_kubectl() {
        let usage = command("kubectl-medley").render_usage().to_string();
        assert!(usage.contains("kubectl medley"), "{usage}");
    }
}
