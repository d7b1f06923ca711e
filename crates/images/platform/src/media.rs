//! Media types of image documents.

#[cfg(test)]
mod tests;

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The `Accept` header: all supported types. A registry answers 404 for other documents.
pub const ACCEPT: [&str; 4] = [OCI_INDEX, DOCKER_LIST, OCI_MANIFEST, DOCKER_MANIFEST];

const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";
const SCHEMA_1: &str = "application/vnd.docker.distribution.manifest.v1+json";
const SCHEMA_1_SIGNED: &str = "application/vnd.docker.distribution.manifest.v1+prettyjws";
const OCI_ARTIFACT: &str = "application/vnd.oci.artifact.manifest.v1+json";
const OCI_EMPTY: &str = "application/vnd.oci.empty.v1+json";

/// The type of a document.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MediaType {
    /// An OCI index.
    OciIndex,
    /// A Docker manifest list, equivalent to an index.
    DockerList,
    /// An OCI manifest.
    OciManifest,
    /// A Docker manifest of version 2, schema 2, equivalent to OCI's.
    DockerManifest,
    /// The config of an OCI image.
    OciConfig,
    /// The config of a Docker image, equivalent to OCI's.
    DockerConfig,
    /// A Docker manifest of schema 1, signed or not. Obsolete.
    DockerSchema1,
    /// OCI's artifact manifest, withdrawn before its release.
    OciArtifact,
    /// The empty JSON object, as config of an artifact.
    OciEmpty,
    /// Anything else, in lower case and without parameters. It may be empty.
    Other(String),
}

/// The role of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// It lists manifests.
    Index,
    /// It lists the layers of an image.
    Manifest,
    /// It holds the platform of an image.
    Config,
    /// It is known, but not supported.
    Unsupported,
    /// It may be anything.
    Unknown,
}

impl MediaType {
    /// Parses a media type or a `Content-Type` header, ignoring parameters and case.
    pub fn read(text: &str) -> Self {
        let essence = text.split(';').next().unwrap_or_default().trim();
        match essence.to_ascii_lowercase().as_str() {
            OCI_INDEX => Self::OciIndex,
            DOCKER_LIST => Self::DockerList,
            OCI_MANIFEST => Self::OciManifest,
            DOCKER_MANIFEST => Self::DockerManifest,
            OCI_CONFIG => Self::OciConfig,
            DOCKER_CONFIG => Self::DockerConfig,
            SCHEMA_1 | SCHEMA_1_SIGNED => Self::DockerSchema1,
            OCI_ARTIFACT => Self::OciArtifact,
            OCI_EMPTY => Self::OciEmpty,
            other => Self::Other(other.to_owned()),
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        match self {
            Self::OciIndex => OCI_INDEX,
            Self::DockerList => DOCKER_LIST,
            Self::OciManifest => OCI_MANIFEST,
            Self::DockerManifest => DOCKER_MANIFEST,
            Self::OciConfig => OCI_CONFIG,
            Self::DockerConfig => DOCKER_CONFIG,
            Self::DockerSchema1 => SCHEMA_1,
            Self::OciArtifact => OCI_ARTIFACT,
            Self::OciEmpty => OCI_EMPTY,
            Self::Other(name) => name,
        }
    }

    /// The role of documents of this type.
    pub fn kind(&self) -> Kind {
        match self {
            Self::OciIndex | Self::DockerList => Kind::Index,
            Self::OciManifest | Self::DockerManifest => Kind::Manifest,
            Self::OciConfig | Self::DockerConfig => Kind::Config,
            Self::DockerSchema1 | Self::OciArtifact | Self::OciEmpty => Kind::Unsupported,
            Self::Other(_) => Kind::Unknown,
        }
    }

    /// Whether it is the empty string.
    pub fn is_empty(&self) -> bool {
        self.as_str().is_empty()
    }
}

impl Default for MediaType {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

impl fmt::Display for MediaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for MediaType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MediaType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        Ok(text.map_or_else(Self::default, |text| Self::read(&text)))
    }
}
