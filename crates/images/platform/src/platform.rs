//! Platforms of nodes and images.
//!
//! A [`Platform`] holds the values as written; [`Platform::normalised`] is the normal form. The names
//! are those of Go (`amd64`, `arm64`), with containerd's aliases (`x86_64`, `aarch64`).

mod normal;
mod parse;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

pub use normal::known_architecture;
pub use parse::PlatformError;

/// Operating system, architecture and details. Empty means not specified. In JSON it is the `platform`
/// of an image index entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Platform {
    /// Operating system: `linux`, `windows`.
    #[serde(deserialize_with = "null_is_empty")]
    pub os: String,
    /// Architecture: `amd64`, `arm64`, `s390x`.
    #[serde(deserialize_with = "null_is_empty")]
    pub architecture: String,
    /// The variant of the architecture: `v7` of `arm`, `v3` of `amd64`.
    #[serde(
        deserialize_with = "null_is_empty",
        skip_serializing_if = "String::is_empty"
    )]
    pub variant: String,
    /// The version of the operating system, which matters on Windows: `10.0.20348.2113`.
    #[serde(
        rename = "os.version",
        deserialize_with = "null_is_empty",
        skip_serializing_if = "String::is_empty"
    )]
    pub os_version: String,
    /// Required features of the operating system: `win32k`.
    #[serde(
        rename = "os.features",
        deserialize_with = "features",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub os_features: Vec<String>,
}

impl Platform {
    /// An operating system and an architecture, without more.
    pub fn new(os: impl Into<String>, architecture: impl Into<String>) -> Self {
        Self {
            os: os.into(),
            architecture: architecture.into(),
            ..Self::default()
        }
    }

    /// The same with a variant.
    #[must_use]
    pub fn with_variant(mut self, variant: impl Into<String>) -> Self {
        self.variant = variant.into();
        self
    }

    /// The same with a version of the operating system.
    #[must_use]
    pub fn with_os_version(mut self, version: impl Into<String>) -> Self {
        self.os_version = version.into();
        self
    }

    /// The normal form, for repeated comparison.
    pub fn meant(&self) -> NormalisedPlatform {
        NormalisedPlatform(self.normalised())
    }

    /// Whether it specifies neither an operating system nor an architecture.
    pub fn is_empty(&self) -> bool {
        self.os.is_empty() && self.architecture.is_empty()
    }

    /// Whether it is `unknown/unknown`, as for attestations.
    pub fn is_unknown(&self) -> bool {
        self.os.eq_ignore_ascii_case(UNKNOWN) && self.architecture.eq_ignore_ascii_case(UNKNOWN)
    }
}

/// A normalised platform, so that it is not normalised again for each comparison.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NormalisedPlatform(Platform);

impl NormalisedPlatform {
    /// The platform, normalised.
    pub fn platform(&self) -> &Platform {
        &self.0
    }
}

/// The platform of entries that are not images.
const UNKNOWN: &str = "unknown";

/// Upper bound of features.
pub(crate) const MAX_FEATURES: usize = 64;

/// Go reads `null` as the zero value, and so do registry clients.
fn null_is_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn features<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    crate::bounded::list::<String, MAX_FEATURES, D>(deserializer)
}

/// The form [`str::parse`] reads: `windows(10.0.20348+win32k)/amd64`, `linux/arm/v7`. It is always one
/// line: characters that no platform has are percent-encoded.
impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        encode(
            if self.os.is_empty() {
                UNKNOWN
            } else {
                &self.os
            },
            f,
        )?;
        let mut features: Vec<&str> = self.os_features.iter().map(String::as_str).collect();
        features.retain(|feature| !feature.is_empty());
        features.sort_unstable();
        features.dedup();
        if !self.os_version.is_empty() || !features.is_empty() {
            f.write_str("(")?;
            encode(&self.os_version, f)?;
            for feature in features {
                f.write_str("+")?;
                encode(feature, f)?;
            }
            f.write_str(")")?;
        }
        for part in [&self.architecture, &self.variant] {
            if !part.is_empty() {
                f.write_str("/")?;
                encode(part, f)?;
            }
        }
        Ok(())
    }
}

/// Writes valid characters, and everything else percent-encoded.
fn encode(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-') {
            write!(f, "{}", char::from(byte))?;
        } else {
            write!(f, "%{byte:02X}")?;
        }
    }
    Ok(())
}
