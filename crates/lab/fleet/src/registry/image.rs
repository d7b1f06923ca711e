//! Images as registries keep them: a layer with a disk, a config, a manifest, and an index of manifests.

use std::collections::BTreeMap;
use std::io::Write as _;

use bytes::Bytes;
use flate2::{Compression, GzBuilder};
use jiff::Timestamp;
use platform::document::Schema2;
use platform::{Descriptor, Digest, Index, Manifest, MediaType, Platform};
use serde_json::{Value, json};

use super::catalog::{Architecture, Form, Image};
use super::holdings::{Revision, Version};
use super::{disk, qcow2, tar};

/// Creation time of the first version: 2026-01-01.
pub(super) const EPOCH: i64 = 1_767_225_600;
/// Interval between versions in seconds.
const DAY: i64 = 86_400;

/// Inputs of a layer, from which the same bytes can be generated at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Recipe {
    image: &'static str,
    architecture: Architecture,
    version: Version,
}

/// A layer and its metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layer {
    pub(super) bytes: Bytes,
    /// The metadata, for callers that do not need the bytes.
    pub(super) metadata: LayerMetadata,
}

/// Metadata of a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LayerMetadata {
    digest: Digest,
    size: u64,
    /// Digest of the uncompressed layer.
    diff_id: Digest,
    /// Digest of the disk in it, as its publisher states it.
    disk: Digest,
}

impl Recipe {
    /// Generates the layer.
    pub(super) fn make(&self) -> std::io::Result<Layer> {
        let name = format!("{} {}", self.image, self.version.disk);
        let disk = qcow2::write(&disk::disk(self.architecture, &name));
        let tar = tar::write(&disk, self.made());
        let mut packed = GzBuilder::new()
            // Without a time the same recipe gives the same bytes, and the same digest, whenever it
            // is generated.
            .mtime(0)
            .write(Vec::new(), Compression::fast());
        packed.write_all(&tar)?;
        let packed = packed.finish()?;
        let metadata = LayerMetadata {
            digest: Digest::sha256(&packed),
            size: packed.len() as u64,
            diff_id: Digest::sha256(&tar),
            disk: Digest::sha256(&disk),
        };
        Ok(Layer {
            bytes: packed.into(),
            metadata,
        })
    }

    /// Build time: every build has its own day.
    fn made(&self) -> i64 {
        let days = i64::from(self.version.disk.saturating_sub(1)) * 30;
        EPOCH + (days + i64::from(self.version.build)) * DAY
    }
}

/// A revision without the layers.
#[derive(Debug, Default)]
pub(crate) struct Published {
    /// The digest the tag points to.
    pub(crate) root: Option<Digest>,
    /// Indexes and manifests.
    pub(super) documents: Vec<(Digest, MediaType, Bytes)>,
    /// Configs and attestations.
    pub(super) blobs: Vec<(Digest, Bytes)>,
    /// Layers.
    pub(super) layers: Vec<(Digest, Recipe)>,
}

/// Builds a revision. `layer` generates layers, or returns cached metadata.
pub(super) fn publish(
    image: &'static Image,
    revision: &Revision,
    mut layer: impl FnMut(Recipe) -> std::io::Result<LayerMetadata>,
) -> std::io::Result<Published> {
    let mut published = Published::default();
    let mut entries = Vec::new();
    for &architecture in image.architectures {
        let Some(&version) = revision.versions.get(&architecture) else {
            continue;
        };
        let recipe = Recipe {
            image: image.name,
            architecture,
            version,
        };
        let metadata = layer(recipe)?;
        published.layers.push((metadata.digest.clone(), recipe));
        let config = published.blob(&config(image, &recipe, &metadata)?);
        let types = Types::of(image.form);
        let manifest = Manifest {
            schema_version: Schema2,
            media_type: types.manifest.clone(),
            artifact_type: String::new(),
            config: descriptor(types.config, config),
            layers: vec![descriptor(
                types.layer,
                (metadata.digest.clone(), metadata.size),
            )],
            annotations: BTreeMap::new(),
        };
        let written = published.document(&types.manifest, &manifest)?;
        let mut platform = Platform::new("linux", architecture.name());
        if image.says_variant && architecture == Architecture::Arm64 {
            platform = platform.with_variant("v8");
        }
        entries.push(Descriptor {
            platform: Some(platform),
            ..descriptor(types.manifest, written)
        });
    }
    let media_type = match image.form {
        Form::Single => {
            published.root = entries.first().map(|entry| entry.digest.clone());
            return Ok(published);
        }
        Form::List => MediaType::DockerList,
        Form::Index => {
            for entry in entries.clone() {
                entries.push(published.attestation(&entry)?);
            }
            MediaType::OciIndex
        }
    };
    let index = Index {
        schema_version: Schema2,
        media_type: media_type.clone(),
        manifests: entries,
        annotations: BTreeMap::new(),
    };
    let (digest, _) = published.document(&media_type, &index)?;
    published.root = Some(digest);
    Ok(published)
}

/// The media types of an image.
pub(super) struct Types {
    pub(super) manifest: MediaType,
    pub(super) config: MediaType,
    pub(super) layer: MediaType,
}

impl Types {
    pub(super) fn of(form: Form) -> Self {
        match form {
            Form::Index => Self {
                manifest: MediaType::OciManifest,
                config: MediaType::OciConfig,
                layer: MediaType::read("application/vnd.oci.image.layer.v1.tar+gzip"),
            },
            Form::List | Form::Single => Self {
                manifest: MediaType::DockerManifest,
                config: MediaType::DockerConfig,
                layer: MediaType::read("application/vnd.docker.image.rootfs.diff.tar.gzip"),
            },
        }
    }
}

impl Published {
    pub(super) fn blob(&mut self, bytes: &[u8]) -> (Digest, u64) {
        let bytes = Bytes::copy_from_slice(bytes);
        let digest = Digest::sha256(&bytes);
        let size = bytes.len() as u64;
        self.blobs.push((digest.clone(), bytes));
        (digest, size)
    }

    pub(super) fn document(
        &mut self,
        media_type: &MediaType,
        document: &impl serde::Serialize,
    ) -> std::io::Result<(Digest, u64)> {
        let bytes = Bytes::from(serde_json::to_vec(document)?);
        let digest = Digest::sha256(&bytes);
        let size = bytes.len() as u64;
        self.documents
            .push((digest.clone(), media_type.clone(), bytes));
        Ok((digest, size))
    }

    /// An attestation entry of an image.
    fn attestation(&mut self, of: &Descriptor) -> std::io::Result<Descriptor> {
        let statement = json!({
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{ "name": "disk", "digest": { "sha256": of.digest.hash() } }],
            "predicateType": "https://slsa.dev/provenance/v1",
            "predicate": { "buildDefinition": { "buildType": "https://medley.dev/demo" } },
        });
        let statement = self.blob(&serde_json::to_vec(&statement)?);
        let config = json!({
            "architecture": "unknown",
            "os": "unknown",
            "config": {},
            "rootfs": { "type": "layers", "diff_ids": [statement.0] },
        });
        let config = self.blob(&serde_json::to_vec(&config)?);
        let manifest = Manifest {
            schema_version: Schema2,
            media_type: MediaType::OciManifest,
            artifact_type: String::new(),
            config: descriptor(MediaType::OciConfig, config),
            layers: vec![descriptor(
                MediaType::read("application/vnd.in-toto+json"),
                statement,
            )],
            annotations: BTreeMap::new(),
        };
        let written = self.document(&MediaType::OciManifest, &manifest)?;
        let marks = [
            ("vnd.docker.reference.digest", of.digest.to_string()),
            (
                "vnd.docker.reference.type",
                "attestation-manifest".to_owned(),
            ),
        ];
        Ok(Descriptor {
            // As BuildKit publishes them: clients that count or choose platforms have to skip these
            // entries.
            platform: Some(Platform::new("unknown", "unknown")),
            annotations: marks.map(|(key, value)| (key.to_owned(), value)).into(),
            ..descriptor(MediaType::OciManifest, written)
        })
    }
}

pub(super) fn descriptor(media_type: MediaType, (digest, size): (Digest, u64)) -> Descriptor {
    Descriptor {
        media_type,
        digest,
        size,
        platform: None,
        artifact_type: String::new(),
        annotations: BTreeMap::new(),
    }
}

/// The image config: platform, and the disk's `shasum` label as in KubeVirt's container disks.
fn config(image: &Image, recipe: &Recipe, metadata: &LayerMetadata) -> std::io::Result<Vec<u8>> {
    let made = Timestamp::from_second(recipe.made()).unwrap_or_default();
    let preference = image.name.replace('-', ".");
    let mut config = json!({
        "architecture": recipe.architecture.name(),
        "os": "linux",
        "created": made.to_string(),
        "config": {
            "Entrypoint": ["no-entrypoint"],
            "Env": [
                "INSTANCETYPE_KUBEVIRT_IO_DEFAULT_INSTANCETYPE=u1.medium",
                format!("INSTANCETYPE_KUBEVIRT_IO_DEFAULT_PREFERENCE={preference}"),
            ],
            "Labels": { "shasum": metadata.disk.hash() },
        },
        "rootfs": { "type": "layers", "diff_ids": [metadata.diff_id] },
        "history": [{ "created": made.to_string(), "comment": "made by the registry of the demo" }],
    });
    if image.says_variant && recipe.architecture == Architecture::Arm64 {
        config["variant"] = Value::from("v8");
    }
    Ok(serde_json::to_vec(&config)?)
}

#[cfg(test)]
mod tests;
