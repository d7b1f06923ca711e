//! Parses untrusted documents.
//!
//! The type of a document comes from the registry (`Content-Type`), from the document (`mediaType`), or
//! else from its fields. Contradictions are rejected: the same bytes must not be an index to one reader
//! and a manifest to another (CVE-2021-41190).
//!
//! Nothing recurses by the depth of the input: unknown fields are skipped without recursion, and known
//! ones have a fixed depth.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{
    Descriptor, Document, ImageConfig, Index, MAX_CONFIG, MAX_ENTRIES, MAX_LABELS, MAX_LAYERS,
    MAX_MANIFEST, Manifest, Schema2,
};
use crate::bounded;
use crate::digest::Digest;
use crate::excerpt::excerpt;
use crate::media::{Kind, MediaType};
use crate::platform::{MAX_FEATURES, Platform};

/// Upper bound of a parser message quoted in an error.
const MAX_DETAIL: usize = 256;

/// Why bytes are not a usable document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// It is too large.
    #[error("reading {what}: it has {found} bytes, the maximum is {most}")]
    TooLarge {
        /// The expected document.
        what: &'static str,
        /// The size in bytes.
        found: usize,
        /// The limit in bytes.
        most: usize,
    },
    /// It is not JSON, or fields are missing or of the wrong type.
    #[error("reading {what}: {detail}")]
    Json {
        /// The expected document.
        what: &'static str,
        /// The parser's message and position.
        detail: String,
    },
    /// It is a manifest of schema 1.
    #[error(
        "reading manifest: Docker's schema 1 is not supported; push the image again with a client that is not older than 2016"
    )]
    Schema1,
    /// It has another schema version.
    #[error("reading manifest: schemaVersion is {found}, only 2 is supported")]
    SchemaVersion {
        /// The version found.
        found: u64,
    },
    /// Its type is neither an index nor a manifest.
    #[error("reading manifest: media type {found} is neither an index nor a manifest")]
    MediaType {
        /// The type, shortened.
        found: String,
    },
    /// `Content-Type` and `mediaType` contradict each other.
    #[error("reading manifest: it was sent as {sent}, but says that it is {said}")]
    Contradiction {
        /// `Content-Type`.
        sent: MediaType,
        /// `mediaType`, shortened.
        said: String,
    },
    /// It has fields of an index and of a manifest.
    #[error("reading {what}: it has {field:?}, which it must not have")]
    Ambiguous {
        /// Its stated type.
        what: &'static str,
        /// The field that contradicts it.
        field: &'static str,
    },
    /// It has fields of neither.
    #[error(
        "reading manifest: neither a media type nor \"manifests\" or \"config\" say what it is"
    )]
    Shapeless,
    /// Config and manifest have different numbers of layers.
    #[error(
        "reading config: it has {diff_ids} rootfs.diff_ids, but the manifest has {layers} layers"
    )]
    Layers {
        /// Layers in the manifest.
        layers: usize,
        /// Layers in the config.
        diff_ids: usize,
    },
}

/// Whether a field is present. `null` counts as absent, as in Go.
type Present = Option<IgnoredAny>;

/// The fields that distinguish documents.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shape {
    schema_version: Option<u64>,
    #[serde(default)]
    media_type: MediaType,
    manifests: Present,
    config: Present,
    layers: Present,
    fs_layers: Present,
    signatures: Present,
}

#[derive(Deserialize)]
struct IndexBody {
    #[serde(default, deserialize_with = "bounded::list::<_, MAX_ENTRIES, _>")]
    manifests: Vec<Descriptor>,
    #[serde(default, deserialize_with = "bounded::map::<MAX_LABELS, _>")]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ManifestBody {
    artifact_type: Option<String>,
    config: Descriptor,
    #[serde(default, deserialize_with = "bounded::list::<_, MAX_LAYERS, _>")]
    layers: Vec<Descriptor>,
    #[serde(default, deserialize_with = "bounded::map::<MAX_LABELS, _>")]
    annotations: BTreeMap<String, String>,
}

/// The fields of a platform are repeated: `flatten` would buffer all unknown fields.
#[derive(Deserialize)]
struct ConfigBody {
    os: Option<String>,
    architecture: Option<String>,
    variant: Option<String>,
    #[serde(rename = "os.version")]
    os_version: Option<String>,
    #[serde(
        rename = "os.features",
        default,
        deserialize_with = "bounded::list::<_, MAX_FEATURES, _>"
    )]
    os_features: Vec<String>,
    config: Option<Process>,
    rootfs: Option<RootFs>,
}

#[derive(Deserialize, Default)]
struct Process {
    #[serde(
        rename = "Labels",
        default,
        deserialize_with = "bounded::map::<MAX_LABELS, _>"
    )]
    labels: BTreeMap<String, String>,
    #[serde(
        rename = "Env",
        default,
        deserialize_with = "bounded::list::<_, MAX_LABELS, _>"
    )]
    env: Vec<String>,
    #[serde(rename = "User")]
    user: Option<String>,
}

#[derive(Deserialize, Default)]
struct RootFs {
    #[serde(default, deserialize_with = "bounded::list::<_, MAX_LAYERS, _>")]
    diff_ids: Vec<Digest>,
}

/// Parses an index or manifest. `content_type` is that of the response or of the index entry.
pub fn read(bytes: &[u8], content_type: Option<&str>) -> Result<Document, DocumentError> {
    bounded_by(bytes, "manifest", MAX_MANIFEST)?;
    let shape: Shape = parse(bytes, "manifest")?;
    let sent = content_type.map(MediaType::read).unwrap_or_default();
    // A document that is an index by its header and a manifest by its content (or has fields of both) lets two
    // clients read two images: CVE-2021-41190. The image specification asks clients to refuse it.
    let media_type = agreed(sent, shape.media_type)?;
    let legacy = shape.fs_layers.is_some() || shape.signatures.is_some();
    if media_type == MediaType::DockerSchema1 || shape.schema_version == Some(1) {
        return Err(DocumentError::Schema1);
    }
    let kind = match media_type.kind() {
        kind @ (Kind::Index | Kind::Manifest) => kind,
        Kind::Config | Kind::Unsupported => {
            return Err(DocumentError::MediaType {
                found: excerpt(media_type.as_str()),
            });
        }
        Kind::Unknown if legacy => return Err(DocumentError::Schema1),
        Kind::Unknown if shape.manifests.is_some() => Kind::Index,
        Kind::Unknown if shape.config.is_some() && shape.layers.is_some() => Kind::Manifest,
        Kind::Unknown => return Err(DocumentError::Shapeless),
    };
    if let Some(found) = shape.schema_version.filter(|version| *version != 2) {
        return Err(DocumentError::SchemaVersion { found });
    }
    // Generic types (`application/json`) are not kept.
    let media_type = match media_type.kind() {
        Kind::Unknown => MediaType::default(),
        _ => media_type,
    };
    let foreign = |what: &'static str, fields: [(&'static str, &Present); 2]| {
        let found = fields.into_iter().find(|(_, value)| value.is_some());
        match found {
            Some((field, _)) => Err(DocumentError::Ambiguous { what, field }),
            None if legacy => Err(DocumentError::Ambiguous {
                what,
                field: "fsLayers",
            }),
            None => Ok(()),
        }
    };
    if kind == Kind::Index {
        foreign(
            "index",
            [("config", &shape.config), ("layers", &shape.layers)],
        )?;
        // Parsed twice: once for the fields that decide what it is, once for the content. An untagged enum would
        // buffer the whole document as generic values.
        let body: IndexBody = parse(bytes, "index")?;
        return Ok(Document::Index(Index {
            schema_version: Schema2,
            media_type,
            manifests: body.manifests,
            annotations: body.annotations,
        }));
    }
    foreign("manifest", [("manifests", &shape.manifests), ("", &None)])?;
    let body: ManifestBody = parse(bytes, "manifest")?;
    Ok(Document::Manifest(Box::new(Manifest {
        schema_version: Schema2,
        media_type,
        artifact_type: body.artifact_type.unwrap_or_default(),
        config: body.config,
        layers: body.layers,
        annotations: body.annotations,
    })))
}

/// Reads the config of an image.
pub fn read_config(bytes: &[u8]) -> Result<ImageConfig, DocumentError> {
    bounded_by(bytes, "config", MAX_CONFIG)?;
    let body: ConfigBody = parse(bytes, "config")?;
    let process = body.config.unwrap_or_default();
    Ok(ImageConfig {
        platform: Platform {
            os: body.os.unwrap_or_default(),
            architecture: body.architecture.unwrap_or_default(),
            variant: body.variant.unwrap_or_default(),
            os_version: body.os_version.unwrap_or_default(),
            os_features: body.os_features,
        },
        labels: process.labels,
        env: process.env,
        user: process.user.unwrap_or_default(),
        diff_ids: body.rootfs.unwrap_or_default().diff_ids,
    })
}

/// The type of a document from `Content-Type` and `mediaType`.
fn agreed(sent: MediaType, said: MediaType) -> Result<MediaType, DocumentError> {
    if said.is_empty() {
        return Ok(sent);
    }
    // Generic types such as `application/json` do not count.
    if sent.kind() == Kind::Unknown || sent == said {
        return Ok(said);
    }
    Err(DocumentError::Contradiction {
        sent,
        said: excerpt(said.as_str()),
    })
}

fn bounded_by(bytes: &[u8], what: &'static str, most: usize) -> Result<(), DocumentError> {
    if bytes.len() > most {
        return Err(DocumentError::TooLarge {
            what,
            found: bytes.len(),
            most,
        });
    }
    Ok(())
}

fn parse<'a, T: Deserialize<'a>>(bytes: &'a [u8], what: &'static str) -> Result<T, DocumentError> {
    serde_json::from_slice(bytes).map_err(|why| {
        // The parser quotes unexpected input of any length.
        let why = why.to_string();
        let mut detail: String = why
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .take(MAX_DETAIL)
            .collect();
        if why.chars().nth(MAX_DETAIL).is_some() {
            detail.push_str("...");
        }
        DocumentError::Json { what, detail }
    })
}
