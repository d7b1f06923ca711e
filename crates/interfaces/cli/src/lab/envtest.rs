//! `medley envtest`: a stand-in for the binaries that controller-runtime's envtest starts.
//!
//! envtest looks for `etcd` and `kube-apiserver` in the folder that `KUBEBUILDER_ASSETS` names,
//! starts both with flags of its own and polls their health. The shims written here call this
//! binary back; the data lives in the memory of the API server, etcd is only pretended.

mod etcd;
mod flags;
mod kube_apiserver;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;

use crate::logging::LogArguments;
use crate::otlp::TraceArguments;
use crate::{exit, logging};

/// Write a folder for KUBEBUILDER_ASSETS, so that envtest suites run on the embedded server.
///
/// The folder gets `kube-apiserver` and `etcd`, small scripts that call this binary, and a link to
/// `kubectl` if there is one on the PATH. Objects live in the memory of the server: a restarted
/// `kube-apiserver` is empty.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The folder, made if it is not there.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// What the shims say first. The flags behind it are those of other programs, so nothing of it is
/// part of the command line that people see.
const KUBE_APISERVER: &str = "__envtest-kube-apiserver";
const ETCD: &str = "__envtest-etcd";

/// Runs what a shim asks for, if the command line comes from one.
pub(crate) fn shim(line: &[OsString]) -> Option<anyhow::Result<()>> {
    let (word, flags) = line.get(1..)?.split_first()?;
    let run = match word.to_str()? {
        KUBE_APISERVER => kube_apiserver::run,
        ETCD => etcd::run,
        _ => return None,
    };
    let started = logging::start(0, &LogArguments::default(), &TraceArguments::default());
    Some(started.and_then(|()| run(flags)))
}

/// Writes the shims.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let folder = &arguments.folder;
    let program = std::env::current_exe().context("finding the path of this program")?;
    fs::create_dir_all(folder)
        .with_context(|| format!("making the folder {}", folder.display()))?;
    for (name, word) in [("kube-apiserver", KUBE_APISERVER), ("etcd", ETCD)] {
        write_script(&folder.join(name), &script(program.as_os_str(), word))?;
    }
    link_kubectl(folder)?;
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.clone());
    exit::print(&format!(
        "export KUBEBUILDER_ASSETS={}\n",
        quote_text(&folder)
    ))
}

/// A script that becomes this program.
fn script(program: &OsStr, command: &str) -> Vec<u8> {
    let mut script = b"#!/bin/sh\nexec ".to_vec();
    script.extend(quote(program.as_bytes()));
    script.extend_from_slice(format!(" {command} \"$@\"\n").as_bytes());
    script
}

/// A word for the shell: nothing has a meaning between single quotes but the quote itself.
fn quote(word: &[u8]) -> Vec<u8> {
    let mut quoted = vec![b'\''];
    for &byte in word {
        match byte {
            b'\'' => quoted.extend_from_slice(br"'\''"),
            other => quoted.push(other),
        }
    }
    quoted.push(b'\'');
    quoted
}

fn quote_text(path: &Path) -> String {
    String::from_utf8_lossy(&quote(path.as_os_str().as_bytes())).into_owned()
}

/// Puts a script in place in one step: a suite may be starting the old one right now.
fn write_script(path: &Path, script: &[u8]) -> anyhow::Result<()> {
    let context = || format!("writing {}", path.display());
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let mut file = tempfile::Builder::new()
        .permissions(fs::Permissions::from_mode(0o755))
        .tempfile_in(folder)
        .with_context(context)?;
    file.write_all(script).with_context(context)?;
    // A program cannot be started while a file of it is open for writing.
    file.into_temp_path().persist(path).with_context(context)
}

/// envtest offers kubectl to its users when it is there; nothing depends on it.
fn link_kubectl(folder: &Path) -> anyhow::Result<()> {
    let link = folder.join("kubectl");
    let Some(kubectl) = find_on_path("kubectl") else {
        return Ok(());
    };
    if link.symlink_metadata().is_ok() {
        return Ok(());
    }
    std::os::unix::fs::symlink(&kubectl, &link)
        .with_context(|| format!("linking {} to {}", link.display(), kubectl.display()))
}

fn find_on_path(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(name))
        .find(|path| path.is_absolute() && path.is_file())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_shim_runs_a_program_whatever_its_path() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["plain", "with space", "it's", "a$HOME`b`\"c\\"] {
            let program = folder.path().join(name);
            write_script(&program, b"#!/bin/sh\nprintf '%s|' \"$@\"\n").unwrap();
            let shim = folder.path().join("shim");
            write_script(&shim, &script(program.as_os_str(), "command")).unwrap();
            let output = Command::new(&shim)
                .args(["--a=b c", "", "*"])
                .output()
                .unwrap();
            assert_eq!(
                String::from_utf8_lossy(&output.stdout),
                "command|--a=b c||*|",
                "{name}"
            );
        }
    }
}
