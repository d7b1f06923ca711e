//! The versions that a DataSource referred to, newest first, for rollbacks.
//!
//! The history is an annotation of the DataSource. A rollback is a pin in the GoldenImagePolicy:
//! the earlier version is used if it is still kept, and imported again if not. Beside a running CDI, which records
//! nothing, the history is [derived](volumes) from the volumes that it keeps.

#[cfg(test)]
mod tests;
pub mod volumes;

use api::cdi::DataSource;
use api::golden::names::HISTORY;
use serde::{Deserialize, Serialize};

use crate::action::annotation;

/// Longer annotations were not written by this program.
const MAX_ANNOTATION_BYTES: usize = 64 * 1024;

/// The length of a SHA-256 digest.
const HEX_DIGITS: usize = 64;

/// A version that a DataSource referred to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The digest that was imported.
    pub digest: String,
    /// The name of the PVC or snapshot.
    pub name: String,
    /// `pvc` or `snapshot`.
    pub format: String,
    /// Since when, in RFC 3339 form.
    pub since: String,
    /// Whether it is derived from a [volume that CDI keeps](volumes), and not recorded. Its digest may be shortened to
    /// the digits in the name of the volume, and `since` is when that was created.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub derived: bool,
}

impl Entry {
    /// Whether all digits of the digest are known.
    pub fn is_whole(&self) -> bool {
        let hex = self.digest.strip_prefix("sha256:");
        hex.is_none_or(|hex| hex.len() == HEX_DIGITS)
    }
}

/// The history of a DataSource; empty if it cannot be parsed.
pub fn read(source: &DataSource) -> Vec<Entry> {
    let text = annotation(&source.metadata, HISTORY);
    let text = text.filter(|text| text.len() <= MAX_ANNOTATION_BYTES);
    text.and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

/// The history with one more entry, and at most this many earlier ones. The same version in another
/// format replaces the newest entry.
pub fn with(mut entries: Vec<Entry>, entry: Entry, earlier: usize) -> Vec<Entry> {
    if entries
        .first()
        .is_some_and(|newest| newest.digest == entry.digest)
    {
        entries.remove(0);
    }
    entries.insert(0, entry);
    entries.truncate(earlier.saturating_add(1));
    entries
}

/// Serialises a history.
pub fn write(entries: &[Entry]) -> String {
    // Strings always serialise.
    serde_json::to_string(entries).unwrap_or_default()
}

/// The version to roll back to: this many versions before the newest. Repeated versions count once.
pub fn back(entries: &[Entry], steps: usize) -> Option<&Entry> {
    let newest = entries.first()?;
    let mut seen = vec![newest.digest.as_str()];
    for entry in entries {
        if seen.contains(&entry.digest.as_str()) {
            continue;
        }
        if seen.len() == steps {
            return Some(entry);
        }
        seen.push(&entry.digest);
    }
    None
}
