//! `medley completion`.

use clap::Args;
use clap_complete::Shell;

use crate::exit;

/// Print the completion script of a shell.
///
/// For bash, `source <(medley completion bash)` completes commands and flags in the current shell.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(arguments: &Arguments, mut command: clap::Command) -> anyhow::Result<()> {
    // Shells complete the file that is called, whatever usage calls it.
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, name, &mut script);
    exit::print(&String::from_utf8_lossy(&script))
}
