//! Where a release is read from: a folder, or an image.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::release::payload::{Files, METADATA, Payload};
use anyhow::{Context as _, bail};
use clap::Args;
use oci::Image;
use platform::Source;

use crate::images::registry::RegistryArguments;

/// Where the image of a release keeps it.
const FOLDER: &str = "release-manifests";

/// No file of a release is larger.
const LARGEST: u64 = 64 << 20;

/// A release.
#[derive(Debug, Args)]
pub(super) struct PayloadArgument {
    /// The release: a folder with its manifests, or an image of it (quay.io/x/y:tag, docker://...,
    /// oci-archive:FILE[:NAME] or oci:FOLDER[:NAME]).
    #[arg(value_name = "RELEASE")]
    payload: String,

    #[command(flatten)]
    registry: RegistryArguments,
}

/// A release that was read.
pub(super) struct Found {
    /// How it was asked for.
    pub(super) name: String,
    /// The image that it is in, if it is in one.
    pub(super) image: Option<Image>,
    /// Its files.
    pub(super) files: Files,
}

impl Found {
    /// What the files say.
    pub(super) fn payload(&self) -> anyhow::Result<Payload> {
        Ok(Payload::read(&self.name, &self.files)?)
    }
}

impl PayloadArgument {
    /// How registries are spoken to.
    pub(super) fn registry(&self) -> &RegistryArguments {
        &self.registry
    }

    /// Reads the release.
    pub(super) async fn read(&self) -> anyhow::Result<Found> {
        read(&self.payload, &self.registry).await
    }
}

/// Reads a release from a folder or an image.
pub(super) async fn read(from: &str, registry: &RegistryArguments) -> anyhow::Result<Found> {
    let path = Path::new(from);
    if path.is_dir() {
        return Ok(Found {
            name: from.to_owned(),
            image: None,
            files: folder(&manifests_in(path))?,
        });
    }
    let source: Source = from
        .parse()
        .with_context(|| format!("{from} is neither a folder nor an image of a release"))?;
    let client = registry.client(&source)?;
    let what = || format!("reading the release in {source}");
    let keyring = registry.keyring()?;
    let image = Image::open(&source, &client, Arc::clone(&keyring))
        .await
        .with_context(what)?;
    let name = source.to_string();
    let architecture = importer::usual_architecture(&source, &client, &keyring)
        .await
        .with_context(what)?;
    let (_, files) = importer::folder(&image, &name, &architecture, FOLDER)
        .await
        .with_context(what)?;
    if files.is_empty() {
        bail!("{name} is no release: there is nothing in its folder /{FOLDER}");
    }
    Ok(Found {
        files: texts(files).with_context(what)?,
        image: Some(image),
        name,
    })
}

/// The folder with the manifests: this one, or the one in it that images have.
fn manifests_in(path: &Path) -> PathBuf {
    let inner = path.join(FOLDER);
    if !path.join(METADATA).exists() && inner.is_dir() {
        inner
    } else {
        path.to_owned()
    }
}

/// The files of a folder, by name. Folders in it are left out.
pub(super) fn folder(path: &Path) -> anyhow::Result<Files> {
    let what = || format!("reading the folder {}", path.display());
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(path).with_context(what)? {
        let entry = entry.with_context(what)?;
        let file = entry.path();
        let about = std::fs::metadata(&file).with_context(what)?;
        if !about.is_file() {
            continue;
        }
        if about.len() > LARGEST {
            bail!(
                "reading {}: it is larger than {LARGEST} bytes",
                file.display()
            );
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        let bytes = std::fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
        files.insert(name, bytes);
    }
    texts(files).with_context(what)
}

/// Files as texts.
fn texts(files: BTreeMap<String, Vec<u8>>) -> anyhow::Result<Files> {
    let texts = files.into_iter().map(|(name, bytes)| {
        let text = String::from_utf8(bytes).with_context(|| format!("file {name} is no text"))?;
        Ok((name, text))
    });
    texts.collect()
}
