//! The files of a release: from a folder, or from an image.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::release_migration::payload::{Files, METADATA, Payload, PayloadError};
use oci::{Client, Image, Keyring};
use platform::Source;

/// Where the image of a release keeps it.
const FOLDER: &str = "release-manifests";

/// No file of a release is larger.
const LARGEST: u64 = 64 << 20;

/// A release that was read.
pub struct Found {
    /// How it was asked for.
    pub name: String,
    /// The image that it is in, if it is in one.
    pub image: Option<Image>,
    /// Its files.
    pub files: Files,
}

impl Found {
    /// What the files say.
    pub fn payload(&self) -> Result<Payload, PayloadError> {
        Payload::read(&self.name, &self.files)
    }
}

/// Why a release cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A folder or a file cannot be.
    #[error("reading {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A file is too large.
    #[error("reading {}: it is larger than {LARGEST} bytes", .0.display())]
    Large(PathBuf),
    /// A file is no text.
    #[error("reading {place}: file {file} is no text")]
    NoText {
        /// Where it is.
        place: String,
        /// What it is called.
        file: String,
    },
    /// An image cannot be opened.
    #[error("reading the release in {image}")]
    Open {
        /// Which.
        image: String,
        /// Why not.
        source: oci::Error,
    },
    /// An image cannot be read.
    #[error("reading the release in {image}")]
    Read {
        /// Which.
        image: String,
        /// Why not.
        source: importer::Error,
    },
    /// An image has no release.
    #[error("{0} is no release: there is nothing in its folder /{FOLDER}")]
    NoRelease(String),
}

/// The release in an image.
pub async fn image(
    source: &Source,
    client: &Client,
    keyring: &Arc<Keyring>,
) -> Result<Found, SourceError> {
    let name = source.to_string();
    let image = Image::open(source, client, Arc::clone(keyring)).await;
    let image = image.map_err(|error| SourceError::Open {
        image: name.clone(),
        source: error,
    })?;
    let unread = |error| SourceError::Read {
        image: name.clone(),
        source: error,
    };
    let architecture = importer::usual_architecture(source, client, keyring).await;
    let architecture = architecture.map_err(unread)?;
    let read = importer::folder(&image, &name, &architecture, FOLDER).await;
    let (_, files) = read.map_err(unread)?;
    if files.is_empty() {
        return Err(SourceError::NoRelease(name));
    }
    Ok(Found {
        files: texts(&name, files)?,
        image: Some(image),
        name,
    })
}

/// The release in a folder, or in the folder in it that images have.
pub fn folder(path: &Path) -> Result<Found, SourceError> {
    let inner = path.join(FOLDER);
    let manifests = if !path.join(METADATA).exists() && inner.is_dir() {
        inner.as_path()
    } else {
        path
    };
    Ok(Found {
        name: path.display().to_string(),
        image: None,
        files: files_in(manifests)?,
    })
}

/// The files of a folder, by name. Folders in it are left out.
pub fn files_in(path: &Path) -> Result<Files, SourceError> {
    let wrong = |path: &Path| {
        let path = path.to_owned();
        move |source| SourceError::File { path, source }
    };
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(path).map_err(wrong(path))? {
        let entry = entry.map_err(wrong(path))?;
        let file = entry.path();
        let about = std::fs::metadata(&file).map_err(wrong(&file))?;
        if !about.is_file() {
            continue;
        }
        if about.len() > LARGEST {
            return Err(SourceError::Large(file));
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        let bytes = std::fs::read(&file).map_err(wrong(&file))?;
        files.insert(name, bytes);
    }
    texts(&path.display().to_string(), files)
}

/// Files as texts.
fn texts(place: &str, files: BTreeMap<String, Vec<u8>>) -> Result<Files, SourceError> {
    let texts = files.into_iter().map(|(name, bytes)| {
        let text = String::from_utf8(bytes).map_err(|_| SourceError::NoText {
            place: place.to_owned(),
            file: name.clone(),
        })?;
        Ok((name, text))
    });
    texts.collect()
}
