//! The first line of a snapshot.

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::redact::Removal;

/// What the first line says the file is.
pub(super) const FORMAT: &str = "medley-snapshot";
/// The version of the format that is written, and the only one read.
pub(super) const VERSION: u32 = 1;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    /// [`FORMAT`].
    pub(super) format: String,
    /// [`VERSION`].
    pub(super) version: u32,
    /// When it was taken.
    pub(super) taken: Timestamp,
    /// The version of the cluster.
    pub(super) kubernetes: String,
}

/// The last line: without it the file is cut off.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Footer {
    /// How many objects come before it.
    pub(super) objects: usize,
    /// What could not be read, and why.
    pub(super) missing: Vec<Missing>,
    /// How many values were redacted, by kind and rule. Snapshots of older versions do not have it.
    #[serde(default)]
    pub(super) redactions: Vec<Removal>,
}

/// A resource that could not be read.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Missing {
    /// `deployments.apps`.
    pub(super) resource: String,
    /// What the server said.
    pub(super) reason: String,
}

/// A line after the first.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Line {
    /// An object.
    Object(serde_json::Value),
    /// The last line.
    End(Footer),
}
