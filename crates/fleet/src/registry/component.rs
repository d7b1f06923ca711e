//! Images of a release: small, with a few files, for one architecture or for several.

use std::collections::BTreeMap;
use std::io::Write as _;

use flate2::{Compression, GzBuilder};
use jiff::Timestamp;
use platform::document::Schema2;
use platform::{Descriptor, Digest, Index, Manifest, MediaType, Platform};
use serde_json::json;

use super::catalog::Form;
use super::image::{EPOCH, Published, Types, descriptor};
use super::tar;

/// An image that is the same for as long as the registry runs.
pub(crate) struct Shelved {
    pub(super) repository: &'static str,
    pub(super) tag: Option<String>,
    pub(super) image: Published,
}

impl Shelved {
    /// An image in a repository.
    pub(crate) fn new(repository: &'static str, tag: Option<String>, image: Published) -> Self {
        Self {
            repository,
            tag,
            image,
        }
    }
}

impl Published {
    /// An image with these files: an index, if it is for several architectures. Each has a file besides
    /// that tells them apart, as programs do.
    pub(crate) fn new(
        architectures: &[&str],
        files: &BTreeMap<String, String>,
    ) -> std::io::Result<Self> {
        let mut image = Self::default();
        let types = Types::of(Form::Index);
        let mut entries = Vec::new();
        for architecture in architectures {
            let mut inside = files.clone();
            inside.insert("etc/architecture".to_owned(), format!("{architecture}\n"));
            let archive = tar::files(&inside, EPOCH);
            let mut packed = GzBuilder::new()
                .mtime(0)
                .write(Vec::new(), Compression::fast());
            packed.write_all(&archive)?;
            let layer = image.blob(&packed.finish()?);
            let config = json!({
                "architecture": architecture,
                "os": "linux",
                "created": Timestamp::from_second(EPOCH).unwrap_or_default().to_string(),
                "config": {},
                "rootfs": { "type": "layers", "diff_ids": [Digest::sha256(&archive)] },
            });
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
                platform: Some(Platform::new("linux", *architecture)),
                ..descriptor(types.manifest.clone(), written)
            });
        }
        image.root = if let [one] = entries.as_slice() {
            Some(one.digest.clone())
        } else {
            let index = Index {
                schema_version: Schema2,
                media_type: MediaType::OciIndex,
                manifests: entries,
                annotations: BTreeMap::new(),
            };
            Some(image.document(&MediaType::OciIndex, &index)?.0)
        };
        Ok(image)
    }
}
