//! Reading the manifests of a release from a folder or an image.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::release_migration::payload::{Files, METADATA, Payload, PayloadError};
use oci::{Client, Image, Keyring};
use platform::Source;

/// Folder of a release image that holds its manifests.
const FOLDER: &str = "release-manifests";

/// Upper bound of one file; manifests are far smaller, and the operator holds them all in memory.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Files of a release.
pub struct Found {
    /// The image or path as requested.
    pub name: String,
    /// The image, unless read from a folder.
    pub image: Option<Image>,
    /// Manifests by file name.
    pub files: Files,
}

impl Found {
    /// Parses the manifests.
    pub fn payload(&self) -> Result<Payload, PayloadError> {
        Payload::read(&self.name, &self.files)
    }
}

/// Why the files of a release cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// I/O error on a folder or file.
    #[error("reading {}", path.display())]
    File {
        /// The folder or file.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// A file exceeds the size limit.
    #[error("reading {}: the file exceeds {MAX_FILE_BYTES} bytes", .0.display())]
    Large(PathBuf),
    /// A file is not UTF-8.
    #[error("reading {place}: file {file} is not UTF-8")]
    NoText {
        /// The image or folder.
        place: String,
        /// Name of the file.
        file: String,
    },
    /// The image cannot be opened.
    #[error("reading the release in {image}")]
    Open {
        /// The image as requested.
        image: String,
        /// Error of the registry client.
        source: oci::Error,
    },
    /// A layer of the image cannot be read.
    #[error("reading the release in {image}")]
    Read {
        /// The image as requested.
        image: String,
        /// Error of the importer.
        source: importer::Error,
    },
    /// The image is not a release image.
    #[error("{0} is not a release image: its folder /{FOLDER} is missing or empty")]
    NoRelease(String),
}

/// Reads the release in an image.
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
    let architecture = oci::resolve::usual_architecture(source, client, keyring).await;
    let architecture = architecture.map_err(|error| unread(error.into()))?;
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

/// Reads the release in a folder, or in its subfolder `release-manifests`.
pub fn folder(path: &Path) -> Result<Found, SourceError> {
    let inner = path.join(FOLDER);
    // An unpacked release image has the subfolder; `oc adm release extract` writes the manifests themselves.
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

/// The regular files of a folder, by name; subfolders are skipped.
pub fn files_in(path: &Path) -> Result<Files, SourceError> {
    let wrong = |path: &Path| {
        let path = path.to_owned();
        move |source| SourceError::File { path, source }
    };
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(path).map_err(wrong(path))? {
        let entry = entry.map_err(wrong(path))?;
        let file = entry.path();
        // Follows links, as the files of a mounted ConfigMap are links into its folder `..data`.
        let about = std::fs::metadata(&file).map_err(wrong(&file))?;
        if !about.is_file() {
            continue;
        }
        if about.len() > MAX_FILE_BYTES {
            return Err(SourceError::Large(file));
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        let bytes = std::fs::read(&file).map_err(wrong(&file))?;
        files.insert(name, bytes);
    }
    texts(&path.display().to_string(), files)
}

/// Decodes files as UTF-8.
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
