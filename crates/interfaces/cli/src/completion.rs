//! `medley completion`, and `kubectl_complete-medley`.

mod kubectl;
mod names;

use clap::Args;
use clap_complete::Shell;

use crate::exit;

/// kubectl runs a program of this name to complete the plugin's command line.
pub(crate) const KUBECTL: &str = "kubectl_complete-medley";

/// Print the completion script for a shell.
///
/// For bash, `source <(medley completion bash)` enables completion in the current shell. `kubectl
/// medley` needs no script: kubectl runs kubectl_complete-medley, which has to be a link to this
/// program on the PATH.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Shell to print the script for.
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(arguments: &Arguments, mut command: clap::Command) -> anyhow::Result<()> {
    // Shells complete the name of the file, independent of the name in the usage.
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, name, &mut script);
    exit::print(&String::from_utf8_lossy(&script))
}

/// Answers kubectl: the arguments so far, the last of which is incomplete and may be empty.
pub(crate) fn answer(words: &[std::ffi::OsString], command: clap::Command) -> anyhow::Result<()> {
    let words: Vec<String> = words
        .iter()
        .map(|it| it.to_string_lossy().into_owned())
        .collect();
    exit::print(&kubectl::answer(command, &words))
}
