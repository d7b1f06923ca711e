//! Writes the bundle to a directory, and packs it as an archive.

use std::fs::{DirBuilder, File};
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::TempDir;

/// The directory of a bundle.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// Removes a temporary directory on drop.
    _passing: Option<TempDir>,
}

impl Folder {
    /// At a path, created if missing.
    pub(super) fn at(path: &Path) -> anyhow::Result<Self> {
        create_directory(path).with_context(|| {
            format!(
                "creating the directory {}; --dest-dir DIR names another",
                path.display()
            )
        })?;
        Ok(Self {
            path: path.to_owned(),
            _passing: None,
        })
    }

    /// In a temporary directory.
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

    /// Writes a file and its parent directories.
    pub(super) fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let below = Path::new(name);
        // The path contains names of objects, so it must not escape the directory.
        let inside = below
            .components()
            .all(|it| matches!(it, Component::Normal(_)));
        ensure!(inside, "{name:?} is not a path in a bundle");
        let path = self.path.join(below);
        let what = || format!("writing {}", path.display());
        let parent = path.parent().unwrap_or(&self.path);
        create_directory(parent).with_context(what)?;
        // Other users may write to the directory: a symbolic link of that name is replaced, not
        // followed.
        let mut file = tempfile::NamedTempFile::new_in(parent).with_context(what)?;
        file.write_all(text.as_bytes()).with_context(what)?;
        file.persist(&path).with_context(what)?;
        Ok(())
    }

    /// Packs the bundle as an archive, which appears only when complete.
    pub(super) fn pack(&self, archive: &Path) -> anyhow::Result<()> {
        let what = || format!("writing the archive {}", archive.display());
        let beside = archive.parent().filter(|it| *it != Path::new(""));
        // A bundle reveals a lot about a cluster: readable by its owner only, and written under a
        // random name, where no other user could have planted a link. The partial file is removed
        // on errors.
        let partial = tempfile::Builder::new()
            .prefix(".medley-gather-")
            .tempfile_in(beside.unwrap_or_else(|| Path::new(".")))
            .with_context(what)?;
        self.pack_into(archive, partial.as_file())
            .with_context(what)?;
        partial.persist(archive).with_context(what)?;
        Ok(())
    }

    fn pack_into(&self, archive: &Path, file: &File) -> anyhow::Result<()> {
        let name = archive.file_name().unwrap_or_default().to_string_lossy();
        let name = name.trim_end_matches(".gz").trim_end_matches(".tgz");
        let mut tar = tar::Builder::new(GzEncoder::new(file, Compression::default()));
        tar.append_dir_all(name.trim_end_matches(".tar"), &self.path)?;
        tar.into_inner()?.finish()?.flush()?;
        Ok(())
    }
}

/// Creates a directory with its parents, for its owner only; an existing one is not changed.
fn create_directory(path: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn bundle_is_readable_by_its_owner_alone_and_follows_no_link() {
        let outside = TempDir::new().unwrap();
        let victim = outside.path().join("victim");
        fs::write(&victim, "mine").unwrap();
        let folder = Folder::at(&outside.path().join("bundle")).unwrap();
        symlink(&victim, folder.path().join("nodes.yaml")).unwrap();
        folder.write("nodes.yaml", "secret").unwrap();
        folder.write("pods/a.yaml", "secret").unwrap();
        let archive = outside.path().join("bundle.tar.gz");
        symlink(&victim, &archive).unwrap();
        folder.pack(&archive).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
        let mode = |path: &Path| fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(folder.path()), 0o700);
        assert_eq!(mode(&folder.path().join("pods")), 0o700);
        assert_eq!(mode(&folder.path().join("nodes.yaml")), 0o600);
        assert_eq!(mode(&archive), 0o600);
    }

    #[test]
    fn paths_outside_the_bundle_are_rejected() {
        let folder = Folder::passing().unwrap();
        folder.write("a/b", "x").unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("a/b")).unwrap(), "x");
        for name in ["../x", "/x", "a/../../x"] {
            assert!(folder.write(name, "x").is_err(), "{name}");
        }
    }
}
