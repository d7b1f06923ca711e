//! First and last line of a snapshot.

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::redact::Removal;

/// Identifies the file as a snapshot.
pub(crate) const FORMAT: &str = "medley-snapshot";
/// The version of the format that is written, and the only one read.
pub(crate) const VERSION: u32 = 1;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Header {
    /// [`FORMAT`].
    pub(crate) format: String,
    /// [`VERSION`].
    pub(crate) version: u32,
    /// When it was taken.
    pub(crate) taken: Timestamp,
    /// The version of the cluster.
    pub(crate) kubernetes: String,
}

/// The last line: without it the file is truncated.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Footer {
    /// Number of objects before it.
    pub(crate) objects: usize,
    /// Resources that could not be read, and why.
    pub(crate) missing: Vec<Missing>,
    /// Redacted values by kind and rule. Snapshots of older versions lack it.
    #[serde(default)]
    pub(crate) redactions: Vec<Removal>,
}

/// A resource that could not be read.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Missing {
    /// `deployments.apps`.
    pub(crate) resource: String,
    /// The message of the API server.
    pub(crate) reason: String,
}

/// A line after the first.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Line {
    /// An object.
    Object(serde_json::Value),
    /// The last line.
    End(Footer),
}
