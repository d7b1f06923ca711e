//! What a DataSource stood for, newest first: so that one can go back.
//!
//! The history is an annotation of the DataSource. Going back is a pin in the GoldenImagePolicy: the
//! version before is used if it is still there, and imported again if not.

#[cfg(test)]
mod tests;

use api::cdi::DataSource;
use api::golden::names::HISTORY;
use serde::{Deserialize, Serialize};

use crate::action::annotation;

/// Texts longer than this were not written here.
const LONGEST: usize = 64 * 1024;

/// A version that a DataSource stood for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// What was imported.
    pub digest: String,
    /// The volume or snapshot.
    pub name: String,
    /// `pvc` or `snapshot`.
    pub format: String,
    /// Since when, in the form of RFC 3339.
    pub since: String,
}

/// What a DataSource remembers. What cannot be read is forgotten.
pub fn read(source: &DataSource) -> Vec<Entry> {
    let text = annotation(&source.metadata, HISTORY);
    let text = text.filter(|text| text.len() <= LONGEST);
    text.and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

/// The history with one more entry, and at most so many earlier ones. The same version again, in
/// another form, replaces the newest.
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

/// As it is written.
pub fn write(entries: &[Entry]) -> String {
    // Entries are texts: writing them cannot fail.
    serde_json::to_string(entries).unwrap_or_default()
}

/// The version to go back to: so many versions before the newest. Versions that were used twice count
/// once.
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
