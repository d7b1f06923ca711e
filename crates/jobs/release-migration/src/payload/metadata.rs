//! `release-metadata`: what a release is.

use machinery::json::go_quote;
use semver::Version;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The kind that the file has.
const KIND: &str = "cincinnati-metadata-v0";
/// The key of the architecture.
const ARCHITECTURE: &str = "release.openshift.io/architecture";
/// The key of the channels.
const CHANNELS: &str = "io.openshift.upgrades.graph.release.channels";

/// What a release is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Metadata {
    /// Always `cincinnati-metadata-v0`.
    #[serde(default)]
    pub kind: String,
    /// The version of the release.
    #[serde(default)]
    pub version: String,
    /// What it can be updated from.
    #[serde(default)]
    pub previous: Vec<String>,
    /// What it can be updated to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<String>,
    /// What else is known of it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// Why a file is no metadata of a release.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// It is no JSON, or something else in JSON.
    #[error("reading Cincinnati metadata: {0}")]
    Syntax(String),
    /// Its kind is another.
    #[error("unrecognized Cincinnati metadata kind {}", go_quote(.0))]
    Kind(String),
    /// It has no version.
    #[error("missing required Cincinnati metadata version")]
    NoVersion,
    /// Its version is none.
    #[error("invalid Cincinnati metadata version {}: {why}", go_quote(.version))]
    Version {
        /// What it says.
        version: String,
        /// Why that is none.
        why: String,
    },
}

/// For what machines a release is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum Architecture {
    /// For several: every image is an index.
    Multi,
    /// For one; which, if that is known.
    Single(Option<String>),
}

impl Metadata {
    /// Metadata of a release that is built.
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

    /// Reads a file, and says what is odd about it.
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

    /// Whether it says to be for several architectures. If it does not, it is for the one that the
    /// program was built for that reads it.
    pub fn is_multi(&self) -> bool {
        self.metadata.get(ARCHITECTURE) == Some(&Value::from("multi"))
    }

    /// For what machines it is. Only `multi` is ever said.
    pub fn architecture(&self) -> Architecture {
        if self.is_multi() {
            Architecture::Multi
        } else {
            Architecture::Single(None)
        }
    }

    /// The channels that it is in.
    pub fn channels(&self) -> Vec<&str> {
        let said = self.metadata.get(CHANNELS).and_then(Value::as_str);
        let channels = said.into_iter().flat_map(|said| said.split(','));
        channels
            .map(str::trim)
            .filter(|channel| !channel.is_empty())
            .collect()
    }
}
