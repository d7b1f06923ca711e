//! Runs other programs.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

/// The folder of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or_else(|| Path::new("."))
}

/// The target folder of cargo.
pub(crate) fn target() -> PathBuf {
    let folder = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| OsString::from("target"));
    root().join(folder)
}

/// A command in the folder of the workspace.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

/// The cargo that started this program.
pub(crate) fn cargo() -> Command {
    command(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")))
}

/// Prints progress.
pub(crate) fn say(line: &str) {
    // A closed pipe is not an error.
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Prints progress while standard output carries a result.
pub(crate) fn warn(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Runs a command with inherited output.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command
        .status()
        .with_context(|| format!("starting {}", describe(command)))?;
    if !status.success() {
        bail!("{} ended with {status}", describe(command));
    }
    Ok(())
}

/// Runs a command and returns its output.
pub(crate) fn read(command: &mut Command) -> anyhow::Result<String> {
    let output = command
        .stderr(std::process::Stdio::inherit())
        .output()
        .with_context(|| format!("starting {}", describe(command)))?;
    if !output.status.success() {
        bail!("{} ended with {}", describe(command), output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("reading {}", describe(command)))
}

/// The path of a program on the PATH, or of one with an absolute path.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

/// Installs a cargo subcommand if it is missing. Without optimisations: such tools mostly start other programs, and
/// an optimised build takes longer than all their work here.
pub(crate) fn provide_subcommand(name: &str, version: &str) -> anyhow::Result<()> {
    let program = format!("cargo-{name}");
    if find(&program).is_some() {
        return Ok(());
    }
    say(&format!("installing {program} {version}"));
    let mut install = cargo();
    // A separate target folder: the workspace cannot reuse anything of it.
    install.env_remove("CARGO_TARGET_DIR");
    run(install.args([
        "install",
        "--locked",
        "--debug",
        &program,
        "--version",
        version,
    ]))
}

fn describe(command: &Command) -> String {
    let words: Vec<String> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    format!("`{}`", words.join(" "))
}
