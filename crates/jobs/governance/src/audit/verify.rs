//! Checks an exported log: no entry was changed, removed, inserted or reordered.

use serde_json::Value;

use super::Entry;

/// What is wrong with a log.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Broken {
    /// A line is no entry.
    #[error("line {line} is no entry of the audit log: {why}")]
    Unreadable {
        /// The line, from 1.
        line: usize,
        /// Why.
        why: String,
    },
    /// Entries are missing, or out of order.
    #[error("after entry {after} follows entry {found}; expected {}", .after + 1)]
    Gap {
        /// The number before.
        after: u64,
        /// The number found.
        found: u64,
    },
    /// The hash of an entry is not that of its content.
    #[error("entry {sequence} was changed: its hash is {expected}, and it says {found}")]
    Changed {
        /// The entry.
        sequence: u64,
        /// The hash of its content.
        expected: String,
        /// The hash that it states.
        found: String,
    },
    /// An entry does not refer to the one before.
    #[error(
        "entry {sequence} does not follow the one before: that has the hash {expected}, and it refers to {found}"
    )]
    Unlinked {
        /// The entry.
        sequence: u64,
        /// The hash of the entry before.
        expected: String,
        /// The hash that it refers to.
        found: String,
    },
    /// The log does not contain an entry that it is known to have had.
    #[error("no entry has the hash {0}: the log was cut off, or is another one")]
    HeadMissing(String),
}

/// A log without faults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// The number of entries.
    pub entries: u64,
    /// The number of the first entry: more than 1 if older ones were removed by the retention.
    pub first: u64,
    /// The hash of the last entry. Kept elsewhere, it proves later that nothing was cut off.
    pub head: String,
}

/// Reads entries as JSON lines; empty lines are skipped.
pub fn parse(text: &str) -> Result<Vec<Entry>, Broken> {
    let lines = text.lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(index, line)| {
            read(line).map_err(|why| Broken::Unreadable {
                line: index + 1,
                why,
            })
        })
        .collect()
}

fn read(line: &str) -> Result<Entry, String> {
    let value: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let entry: Entry = serde_json::from_value(value.clone()).map_err(|error| error.to_string())?;
    // A field that is not read would not be covered by the hash.
    if serde_json::to_value(&entry).ok() != Some(value) {
        return Err("it has fields that no version writes".to_owned());
    }
    Ok(entry)
}

/// Checks the chain of entries. `head` is the hash of an entry that the log has to contain, if one is known.
pub fn verify(entries: &[Entry], head: Option<&str>) -> Result<Summary, Broken> {
    let mut summary = Summary::default();
    let mut previous: Option<&Entry> = None;
    for entry in entries {
        let (after, linked) = match previous {
            Some(previous) => (previous.sequence, previous.hash.as_str()),
            // The first entry of a log that was pruned refers to one that is gone.
            None if entry.sequence > 1 => (entry.sequence - 1, entry.previous.as_str()),
            None => (0, ""),
        };
        if entry.sequence != after + 1 {
            let found = entry.sequence;
            return Err(Broken::Gap { after, found });
        }
        let sequence = entry.sequence;
        if entry.previous != linked {
            return Err(Broken::Unlinked {
                sequence,
                expected: linked.to_owned(),
                found: entry.previous.clone(),
            });
        }
        let expected = entry.expected_hash();
        if entry.hash != expected {
            let found = entry.hash.clone();
            return Err(Broken::Changed {
                sequence,
                expected,
                found,
            });
        }
        if previous.is_none() {
            summary.first = sequence;
        }
        summary.entries += 1;
        summary.head.clone_from(&entry.hash);
        previous = Some(entry);
    }
    if let Some(head) = head
        && !entries.iter().any(|entry| entry.hash == head)
    {
        return Err(Broken::HeadMissing(head.to_owned()));
    }
    Ok(summary)
}
