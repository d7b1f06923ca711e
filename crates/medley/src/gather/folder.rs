//! Where the bundle is written, and how it becomes an archive.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::TempDir;

/// The folder of a bundle.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// It goes when this goes, if it is for a while only.
    _passing: Option<TempDir>,
}

impl Folder {
    /// At a path, which is made if it is not there.
    pub(super) fn at(path: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(path).with_context(|| {
            format!(
                "making the folder {}; --dest-dir DIR names another",
                path.display()
            )
        })?;
        Ok(Self {
            path: path.to_owned(),
            _passing: None,
        })
    }

    /// Somewhere, for a while.
    pub(super) fn passing() -> anyhow::Result<Self> {
        let folder = TempDir::with_prefix("medley-gather-").context("making a folder")?;
        Ok(Self {
            path: folder.path().to_owned(),
            _passing: Some(folder),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file, and the folders that it is in.
    pub(super) fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let below = Path::new(name);
        // Names of objects are part of it.
        let inside = below
            .components()
            .all(|it| matches!(it, Component::Normal(_)));
        ensure!(inside, "{name:?} is no place in a bundle");
        let path = self.path.join(below);
        let what = || format!("writing {}", path.display());
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(what)?;
        }
        fs::write(&path, text).with_context(what)
    }

    /// Puts all of it into an archive, which appears only when it is whole.
    pub(super) fn pack(&self, archive: &Path) -> anyhow::Result<()> {
        let what = || format!("writing the archive {}", archive.display());
        let mut partial = archive.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let packed = self.pack_into(archive, &partial).with_context(what);
        if packed.is_err() {
            // It says nothing that could be used; the error counts.
            let _ = fs::remove_file(&partial);
        }
        packed?;
        fs::rename(&partial, archive).with_context(what)
    }

    fn pack_into(&self, archive: &Path, partial: &Path) -> anyhow::Result<()> {
        // A bundle tells a lot about a cluster: for the eyes of its owner alone.
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(partial)?;
        let name = archive.file_name().unwrap_or_default().to_string_lossy();
        let name = name.trim_end_matches(".gz").trim_end_matches(".tgz");
        let mut tar = tar::Builder::new(GzEncoder::new(file, Compression::default()));
        tar.append_dir_all(name.trim_end_matches(".tar"), &self.path)?;
        tar.into_inner()?.finish()?.flush()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_elsewhere() {
        let folder = Folder::passing().unwrap();
        folder.write("a/b", "x").unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("a/b")).unwrap(), "x");
        for name in ["../x", "/x", "a/../../x"] {
            assert!(folder.write(name, "x").is_err(), "{name}");
        }
    }
}
