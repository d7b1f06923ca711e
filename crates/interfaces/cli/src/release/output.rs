//! Writes releases to a directory.

use std::fs;
use std::path::{Path, PathBuf};

use ::release_migration::payload::Files;
use anyhow::{Context as _, bail};
use clap::Args;
use serde_json::Value;

use crate::exit;
use crate::output::Data;

/// Output directory of a release, and format of the result.
#[derive(Debug, Args)]
pub(super) struct TargetArguments {
    /// Directory to write the release to. It must be empty, and is created if missing.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,

    /// Output format.
    /// [default: human-readable text]
    #[arg(long, value_enum)]
    format: Option<Data>,
}

impl TargetArguments {
    /// Prints the result in the chosen format.
    pub(super) fn print(&self, value: &Value, text: impl FnOnce() -> String) -> anyhow::Result<()> {
        exit::print(&match self.format {
            Some(data) => data.write(value)?,
            None => text(),
        })
    }

    /// The directory, for messages.
    pub(super) fn name(&self) -> String {
        self.output.display().to_string()
    }

    /// Checks that the directory can be written, before any work is done.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        match fs::read_dir(&self.output) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error).with_context(|| format!("reading {}", self.name())),
            Ok(mut entries) => match entries.next() {
                None => Ok(()),
                Some(_) => bail!(
                    "writing {}: the directory is not empty, and its files would become part of the release",
                    self.name()
                ),
            },
        }
    }

    /// Writes all files or none: to a temporary directory, which is then renamed.
    pub(super) fn write(&self, files: &Files) -> anyhow::Result<()> {
        self.check()?;
        let what = || format!("writing {}", self.name());
        let parent = match self.output.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        fs::create_dir_all(parent).with_context(what)?;
        let folder = tempfile::Builder::new()
            .prefix(".release-")
            .tempdir_in(parent)
            .with_context(what)?;
        for (name, text) in files {
            fs::write(folder.path().join(name), text).with_context(what)?;
        }
        set_default_permissions(folder.path()).with_context(what)?;
        if self.output.exists() {
            fs::remove_dir(&self.output).with_context(what)?;
        }
        fs::rename(folder.path(), &self.output).with_context(what)?;
        // It was renamed, so there is nothing left to remove.
        let _ = folder.keep();
        Ok(())
    }
}

/// Temporary directories are readable by their owner only; this one becomes permanent.
fn set_default_permissions(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}
