//! `medley envtest`: a stand-in for the binaries that controller-runtime's envtest starts.
//!
//! envtest looks for `etcd` and `kube-apiserver` in `KUBEBUILDER_ASSETS`, starts both with its own
//! flags and polls their health. The shims written here call this binary back; the API server keeps
//! its data in memory, and etcd only answers health probes.

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

/// Write a directory for KUBEBUILDER_ASSETS, so that envtest suites run on the embedded API server.
///
/// The directory contains `kube-apiserver` and `etcd`, scripts that call this program, and a link to
/// `kubectl` if it is on the PATH. Objects are kept in memory, so a restarted `kube-apiserver` is
/// empty.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Directory to write, created if missing.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// First argument passed by the shims. The flags behind it are those of kube-apiserver and etcd, so
/// it is kept out of the documented command line.
const KUBE_APISERVER: &str = "__envtest-kube-apiserver";
const ETCD: &str = "__envtest-etcd";

/// Runs the command of a shim, if the command line comes from one.
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
        .with_context(|| format!("creating the directory {}", folder.display()))?;
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

/// A shell script that execs this program.
fn script(program: &OsStr, command: &str) -> Vec<u8> {
    let mut script = b"#!/bin/sh\nexec ".to_vec();
    script.extend(quote(program.as_bytes()));
    script.extend_from_slice(format!(" {command} \"$@\"\n").as_bytes());
    script
}

/// Quotes an argument for the shell: within single quotes only the quote itself is special.
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

/// Replaces a script atomically: a suite may be starting the old one at this moment.
fn write_script(path: &Path, script: &[u8]) -> anyhow::Result<()> {
    let context = || format!("writing {}", path.display());
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let mut file = tempfile::Builder::new()
        .permissions(fs::Permissions::from_mode(0o755))
        .tempfile_in(folder)
        .with_context(context)?;
    file.write_all(script).with_context(context)?;
    // Linux refuses to execute a file that is open for writing (ETXTBSY).
    file.into_temp_path().persist(path).with_context(context)
}

/// envtest offers kubectl to its users when present; it is optional.
fn link_kubectl(folder: &Path) -> anyhow::Result<()> {
    let link = folder.join("kubectl");
    let Some(kubectl) = find_on_path("kubectl") else {
        return Ok(());
    };
    // A link that the user has made stays; `exists` would follow it and miss a dangling one.
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
    fn shim_quotes_the_program_path() {
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
