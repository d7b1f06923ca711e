//! Releases that are written to a folder.

use std::fs;
use std::path::{Path, PathBuf};

use ::release_migration::payload::Files;
use anyhow::{Context as _, bail};
use clap::Args;

use crate::governance::output::Data;

/// Where a release is written to, and how that is told.
#[derive(Debug, Args)]
pub(super) struct OutputArguments {
    /// The folder to write the release to. It must not exist, or be empty.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,

    /// Form of the result; a line of text if absent.
    #[arg(long, value_enum)]
    format: Option<Data>,
}

impl OutputArguments {
    /// The form of the result.
    pub(super) fn format(&self) -> Option<Data> {
        self.format
    }

    /// How the folder is called.
    pub(super) fn name(&self) -> String {
        self.output.display().to_string()
    }

    /// Whether anything can be written, before anything is done.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        match fs::read_dir(&self.output) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error).with_context(|| format!("looking at {}", self.name())),
            Ok(mut entries) => match entries.next() {
                None => Ok(()),
                Some(_) => bail!(
                    "writing {}: it is not empty, and what is left in it would become a part of the release",
                    self.name()
                ),
            },
        }
    }

    /// Writes all files, or none: they are written beside it, which then becomes the folder.
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
        set_usual_rights(folder.path()).with_context(what)?;
        if self.output.exists() {
            fs::remove_dir(&self.output).with_context(what)?;
        }
        fs::rename(folder.path(), &self.output).with_context(what)?;
        // It has another name now, and there is nothing left to remove.
        let _ = folder.keep();
        Ok(())
    }
}

/// Folders for a while are for their owner alone; this one is to stay.
fn set_usual_rights(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}
