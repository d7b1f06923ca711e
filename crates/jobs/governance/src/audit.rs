//! The audit log: every plan, approval and item with the values before and after, as a chain of entries.
//!
//! ```text
//! VirtPlatformConfig, history --facts--> Facts --append--> Entries (each with the hash of the one before) --> segments
//!                                                                                verify <-- JSON lines <-----'
//! ```
//!
//! The history keeps what a rollback needs: ten plans. The log keeps what happened, for much longer, and proves that
//! nothing in it was changed or removed: the hash of an entry covers the entry and the hash of its predecessor.

mod facts;
#[cfg(test)]
mod tests;
mod verify;

use std::collections::BTreeSet;

use jiff::Timestamp;
use machinery::json;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

pub use facts::{Fact, facts};
pub use verify::{Broken, Summary, parse, verify};

/// Label of the ControllerRevisions of the log.
pub const LABEL: &str = "medley.dev/audit";
/// Value of the label.
pub const LABEL_VALUE: &str = "governance";

/// Upper bound of a segment in bytes. An object may have 1.5 MiB in etcd, of which metadata needs a little.
const SEGMENT_BYTES: usize = 512 << 10;

/// An entry of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Its number, from 1.
    pub sequence: u64,
    /// When it happened.
    pub time: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub fact: Fact,
    /// The hash of the entry before; empty for the first.
    pub previous: String,
    /// SHA-256 of the compact JSON of the entry without this field, in hexadecimal digits.
    #[serde(default)]
    pub hash: String,
}

impl Entry {
    /// The hash that the entry should have.
    fn expected_hash(&self) -> String {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        if let Some(fields) = value.as_object_mut() {
            fields.remove("hash");
        }
        // Keys of a `Value` are sorted, so the text does not depend on the order in which the fields were read.
        crate::hash::hex(&Sha256::digest(json::to_vec(&value)))
    }

    /// The entry as a line.
    pub fn line(&self) -> String {
        json::to_string(&serde_json::to_value(self).unwrap_or_default())
    }
}

/// What is known about a chain: enough to continue it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Chain {
    /// The number of the first entry that is left, and its time.
    first: Option<(u64, Timestamp)>,
    /// The number and hash of the last entry.
    last: Option<(u64, String)>,
    /// The identities of the facts in it.
    known: BTreeSet<String>,
}

impl Chain {
    /// Reads the entries of a chain, in order.
    pub fn read<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Self {
        let mut chain = Self::default();
        for entry in entries {
            chain.take(entry);
        }
        chain
    }

    /// Takes an entry that was stored.
    pub fn take(&mut self, entry: &Entry) {
        self.first.get_or_insert((entry.sequence, entry.time));
        self.last = Some((entry.sequence, entry.hash.clone()));
        self.known.insert(entry.fact.identity());
    }

    /// Whether a fact with this identity is in it.
    fn knows(&self, identity: &str) -> bool {
        self.known.contains(identity)
    }

    /// The number of the next entry.
    pub fn next(&self) -> u64 {
        self.last.as_ref().map_or(1, |(sequence, _)| sequence + 1)
    }

    /// The entries to append for facts that are not in the chain, oldest first. `now` is the time of facts without one.
    pub fn append(&self, facts: Vec<Fact>, now: Timestamp) -> Vec<Entry> {
        // A pruned chain does not tell whether a fact older than it was in the part that is gone.
        let since = self.first.filter(|(sequence, _)| *sequence > 1);
        let mut new: Vec<_> = facts
            .into_iter()
            .map(|fact| (fact.time().unwrap_or(now), fact))
            .filter(|(time, fact)| {
                !self.known.contains(&fact.identity())
                    && since.is_none_or(|(_, since)| *time >= since)
            })
            .collect();
        // Stable: facts of the same second stay in the order of their cause and effect.
        new.sort_by_key(|(time, fact)| (time.as_second(), fact.rank()));
        let (mut sequence, mut previous) = self.last.clone().unwrap_or_default();
        let mut appended = Vec::new();
        let mut seen = BTreeSet::new();
        for (time, fact) in new {
            if !seen.insert(fact.identity()) {
                continue;
            }
            sequence += 1;
            let mut entry = Entry {
                sequence,
                time,
                fact: fact.bounded(),
                previous: std::mem::take(&mut previous),
                hash: String::new(),
            };
            entry.hash = entry.expected_hash();
            previous.clone_from(&entry.hash);
            appended.push(entry);
        }
        appended
    }
}

/// Divides entries into segments that fit into an object each.
pub fn segments(entries: Vec<Entry>) -> Vec<Vec<Entry>> {
    let mut segments: Vec<Vec<Entry>> = Vec::new();
    let mut bytes = 0;
    for entry in entries {
        let length = entry.line().len();
        match segments.last_mut() {
            Some(segment) if bytes + length <= SEGMENT_BYTES => segment.push(entry),
            _ => {
                segments.push(vec![entry]);
                bytes = 0;
            }
        }
        bytes += length;
    }
    segments
}

/// The objects to delete so that about this many entries are left: `segments` has the first number of each. The last
/// segment always stays, because the chain continues from it.
pub fn prunable(segments: &[u64], next: u64, kept: u64) -> Vec<u64> {
    let mut firsts = segments.to_vec();
    firsts.sort_unstable();
    // A segment ends where the following one begins.
    let ends = firsts.windows(2).map(|pair| (pair[0], pair[1]));
    let beyond = ends.filter(|(_, end)| *end <= next.saturating_sub(kept));
    beyond.map(|(first, _)| first).collect()
}

/// The entries of a segment, as stored.
pub fn read_segment(data: &Value) -> Vec<Entry> {
    let entries = data["entries"].as_array().into_iter().flatten();
    entries
        .filter_map(|entry| serde_json::from_value(entry.clone()).ok())
        .collect()
}

/// The data of a segment.
pub fn segment_data(entries: &[Entry]) -> Value {
    serde_json::json!({ "entries": entries })
}

/// The name of the object of a segment. Names sort as the numbers do.
pub fn segment_name(first: u64) -> String {
    format!("medley-audit-{first:012}")
}
