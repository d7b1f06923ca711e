//! Keys in a file, which the administrator creates and rotates.

use std::path::Path;

use jiff::Timestamp;

use super::{Key, KeysError};

/// The keys of a file. The ring has the oldest key first, and encrypts with the newest; in the file
/// the key that encrypts is the first, where a new one is put in front of the others.
pub(super) fn read(path: &Path) -> Result<Vec<Key>, KeysError> {
    let text = std::fs::read_to_string(path).map_err(|source| KeysError::File {
        path: path.to_owned(),
        source,
    })?;
    let wrong = |line: usize| KeysError::Content {
        path: path.to_owned(),
        line,
    };
    let mut keys = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let key = Key::parse(line, Timestamp::UNIX_EPOCH);
        keys.push(key.ok_or_else(|| wrong(index + 1))?);
    }
    if keys.is_empty() {
        return Err(wrong(1));
    }
    keys.reverse();
    Ok(keys)
}
