//! Running other programs.

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

/// The folder that cargo builds in.
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

/// The cargo this was started by.
pub(crate) fn cargo() -> Command {
    command(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")))
}

/// Tells how it is going.
pub(crate) fn say(line: &str) {
    // A closed pipe changes nothing about what is done.
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Runs a command whose output goes where ours goes.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command
        .status()
        .with_context(|| format!("starting {}", describe(command)))?;
    if !status.success() {
        bail!("{} ended with {status}", describe(command));
    }
    Ok(())
}

/// Runs a command and returns what it writes.
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

/// Where a program is on the PATH.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

/// Installs a subcommand of cargo where it is missing. Without optimisations: such tools mostly start other programs, and
/// building them optimised takes longer than everything that they do here.
pub(crate) fn provide_subcommand(name: &str, version: &str) -> anyhow::Result<()> {
    let program = format!("cargo-{name}");
    if find(&program).is_some() {
        return Ok(());
    }
    say(&format!("installing {program} {version}"));
    let mut install = cargo();
    // Its own folder for building: nothing of it is of use to the workspace.
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
