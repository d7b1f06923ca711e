//! Small images with a few files, for one or several platforms: those of releases, and
//! applications.

use std::collections::BTreeMap;
use std::io::Write as _;

use flate2::{Compression, GzBuilder};
use jiff::Timestamp;
use platform::document::Schema2;
use platform::{Descriptor, Digest, Index, Manifest, MediaType, Platform};
use serde_json::{Value, json};

use super::catalog::Form;
use super::image::{EPOCH, Published, Types, descriptor};
use super::tar;

/// An image that does not change while the registry runs.
pub(crate) struct StaticImage {
    pub(super) repository: &'static str,
    pub(super) tag: Option<String>,
    pub(super) image: Published,
}

impl StaticImage {
    /// An image in a repository.
    pub(crate) fn new(repository: &'static str, tag: Option<String>, image: Published) -> Self {
        Self {
            repository,
            tag,
            image,
        }
    }
}

/// An image for one platform.
pub(super) struct Part {
    pub(super) platform: Platform,
    /// Its files, by path.
    pub(super) files: BTreeMap<String, String>,
}

impl Published {
    /// An image with these files: an index, if it has several architectures. Each has an additional
    /// file with its architecture, so that digests differ as those of programs do.
    pub(crate) fn new(
        architectures: &[&str],
        files: &BTreeMap<String, String>,
    ) -> std::io::Result<Self> {
        let parts = architectures.iter().map(|architecture| {
            let mut files = files.clone();
            files.insert("etc/architecture".to_owned(), format!("{architecture}\n"));
            Part {
                platform: Platform::new("linux", *architecture),
                files,
            }
        });
        Self::of(&parts.collect::<Vec<_>>(), architectures.len() > 1)
    }

    /// The images for these platforms: in an index, or only the first.
    pub(super) fn of(parts: &[Part], is_index: bool) -> std::io::Result<Self> {
        let mut image = Self::default();
        let types = Types::of(Form::Index);
        let mut entries = Vec::new();
        for Part { platform, files } in parts {
            let archive = tar::files(files, EPOCH);
            let mut packed = GzBuilder::new()
                .mtime(0)
                .write(Vec::new(), Compression::fast());
            packed.write_all(&archive)?;
            let layer = image.blob(&packed.finish()?);
            let config = config(platform, &Digest::sha256(&archive));
            let config = image.blob(&serde_json::to_vec(&config)?);
            let manifest = Manifest {
                schema_version: Schema2,
                media_type: types.manifest.clone(),
                artifact_type: String::new(),
                config: descriptor(types.config.clone(), config),
                layers: vec![descriptor(types.layer.clone(), layer)],
                annotations: BTreeMap::new(),
            };
            let written = image.document(&types.manifest, &manifest)?;
            entries.push(Descriptor {
                platform: Some(platform.clone()),
                ..descriptor(types.manifest.clone(), written)
            });
        }
        image.root = if is_index {
            let index = Index {
                schema_version: Schema2,
                media_type: MediaType::OciIndex,
                manifests: entries,
                annotations: BTreeMap::new(),
            };
            Some(image.document(&MediaType::OciIndex, &index)?.0)
        } else {
            entries.first().map(|entry| entry.digest.clone())
        };
        Ok(image)
    }
}

fn config(platform: &Platform, diff: &Digest) -> Value {
    let mut config = json!({
        "architecture": platform.architecture,
        "os": platform.os,
        "created": Timestamp::from_second(EPOCH).unwrap_or_default().to_string(),
        "config": {},
        "rootfs": { "type": "layers", "diff_ids": [diff] },
    });
    if !platform.variant.is_empty() {
        config["variant"] = platform.variant.as_str().into();
    }
    if !platform.os_version.is_empty() {
        config["os.version"] = platform.os_version.as_str().into();
    }
    config
}
