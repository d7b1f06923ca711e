//! `release-metadata`: version, architecture and update edges of a release.

use machinery::json::go_quote;
use semver::Version;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The kind of the file.
const KIND: &str = "cincinnati-metadata-v0";
/// The metadata key of the architecture.
const ARCHITECTURE: &str = "release.openshift.io/architecture";
/// The metadata key of the channels.
const CHANNELS: &str = "io.openshift.upgrades.graph.release.channels";

/// The metadata of a release.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Metadata {
    /// Always `cincinnati-metadata-v0`.
    #[serde(default)]
    pub kind: String,
    /// The version of the release.
    #[serde(default)]
    pub version: String,
    /// Versions that can be updated to it.
    #[serde(default)]
    pub previous: Vec<String>,
    /// Versions that it can be updated to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<String>,
    /// Further metadata.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// Why a file is not valid release metadata.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// It is not valid JSON of this form.
    #[error("reading Cincinnati metadata: {0}")]
    Syntax(String),
    /// It has another kind.
    #[error("unrecognized Cincinnati metadata kind {}", go_quote(.0))]
    Kind(String),
    /// It has no version.
    #[error("missing required Cincinnati metadata version")]
    NoVersion,
    /// Its version is invalid.
    #[error("invalid Cincinnati metadata version {}: {why}", go_quote(.version))]
    Version {
        /// The value.
        version: String,
        /// The parse error.
        why: String,
    },
}

/// The architecture of a release.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum Architecture {
    /// Several: every image is an index.
    Multi,
    /// One; its name, if known.
    Single(Option<String>),
}

impl Metadata {
    /// Metadata of a release to build.
    pub fn new(version: &str, multi: bool) -> Self {
        let mut metadata = Map::new();
        if multi {
            metadata.insert(ARCHITECTURE.to_owned(), "multi".into());
        }
        Self {
            kind: KIND.to_owned(),
            version: version.to_owned(),
            metadata,
            ..Self::default()
        }
    }

    /// Parses a file, and returns its warnings.
    pub fn read(text: &str) -> Result<(Self, Vec<String>), MetadataError> {
        let read: Self =
            serde_json::from_str(text).map_err(|error| MetadataError::Syntax(error.to_string()))?;
        if read.kind != KIND {
            return Err(MetadataError::Kind(read.kind));
        }
        if read.version.is_empty() {
            return Err(MetadataError::NoVersion);
        }
        if let Err(error) = Version::parse(&read.version) {
            return Err(MetadataError::Version {
                version: read.version,
                why: error.to_string(),
            });
        }
        let warning = match read.metadata.get(ARCHITECTURE) {
            None => None,
            Some(Value::String(found)) if found == "multi" => None,
            Some(Value::String(found)) => Some(go_quote(found)),
            Some(other) => Some(other.to_string()),
        };
        let warning = warning.map(|it| format!("unrecognized {ARCHITECTURE} value {it}"));
        Ok((read, warning.into_iter().collect()))
    }

    /// Whether it declares several architectures. If not, the release is for the architecture of the process that reads
    /// it.
    pub fn is_multi(&self) -> bool {
        self.metadata.get(ARCHITECTURE) == Some(&Value::from("multi"))
    }

    /// Its architecture. Only `multi` is ever declared.
    pub fn architecture(&self) -> Architecture {
        if self.is_multi() {
            Architecture::Multi
        } else {
            Architecture::Single(None)
        }
    }

    /// Its channels.
    pub fn channels(&self) -> Vec<&str> {
        let value = self.metadata.get(CHANNELS).and_then(Value::as_str);
        let channels = value.into_iter().flat_map(|value| value.split(','));
        channels
            .map(str::trim)
            .filter(|channel| !channel.is_empty())
            .collect()
    }
}
