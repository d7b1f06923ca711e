//! A record of the log as bytes, and the detection of damage.
//!
//! ```text
//!  checked    kind 2|3, create revision, key length, checksum of the value, checksum of the head, key, value
//!  unchecked  kind 0|1, create revision, key length, key, value           written before format 2
//! ```
//!
//! The database has checksums of its own, but verifies them only after a crash; a byte that flips
//! while the file is closed would be served. The two checksums here distinguish a damaged object,
//! whose key is certain, from a damaged head, whose key is a guess. CRC-32 suffices against disk
//! errors (it detects every burst up to 32 bits) and costs nothing compared to the sync; it is no
//! defence against an attacker who can write the file, who owns the cluster anyway.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use flate2::Crc;
use serde::Deserialize;

use super::{Entry, Event};

const UNCHECKED_PUT: u8 = 0;
const UNCHECKED_DELETE: u8 = 1;
const PUT: u8 = 2;
const DELETE: u8 = 3;

/// Kind, create revision and length of the key.
const UNCHECKED_HEAD: usize = 1 + 8 + 4;
/// As [`UNCHECKED_HEAD`], and the two checksums.
const HEAD: usize = UNCHECKED_HEAD + 4 + 4;
/// Prefix of every key, which locates a key when the length in the head is damaged.
const ROOT: &str = "/registry/";

/// A record read back: the version and whether it is a deletion.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) entry: Entry,
    pub(super) delete: bool,
}

/// Size of an event's record; `None` if its key is too long.
pub(super) fn length(event: &Event) -> Option<usize> {
    let entry = &event.entry;
    u32::try_from(entry.key.len()).ok()?;
    HEAD.checked_add(entry.key.len())?
        .checked_add(entry.value.len())
}

/// Writes the record of an event into a buffer of [`length`] bytes, which avoids a copy of every
/// value.
pub(super) fn encode(event: &Event, space: &mut [u8]) {
    let entry = &event.entry;
    let key = entry.key.as_bytes();
    let kind = if event.is_delete() { DELETE } else { PUT };
    let mut head = Vec::with_capacity(HEAD + key.len());
    head.push(kind);
    head.extend_from_slice(&entry.create_revision.to_le_bytes());
    // `length` has checked that this fits.
    let key_length = u32::try_from(key.len()).unwrap_or(u32::MAX);
    head.extend_from_slice(&key_length.to_le_bytes());
    head.extend_from_slice(&sum(&[&entry.value]).to_le_bytes());
    // The revision is the record's key in the table and not part of its bytes. In the checksum it
    // detects a record that is returned under another revision, with intact content.
    let checksum = sum(&[&event.revision.to_le_bytes(), &head, key]);
    head.extend_from_slice(&checksum.to_le_bytes());
    head.extend_from_slice(key);
    let (place, value) = space.split_at_mut(head.len());
    place.copy_from_slice(&head);
    value.copy_from_slice(&entry.value);
}

/// Decodes a record. Damage is marked in its entry; `None` if not even the key can be guessed.
pub(super) fn decode(revision: u64, bytes: &[u8]) -> Option<Record> {
    whole(revision, bytes).or_else(|| guess(revision, bytes))
}

/// A record with an intact head.
fn whole(revision: u64, bytes: &[u8]) -> Option<Record> {
    let (kind, rest) = bytes.split_first()?;
    let (create, rest) = rest.split_first_chunk::<8>()?;
    let (key_length, mut rest) = rest.split_first_chunk::<4>()?;
    let mut sums = None;
    if matches!(*kind, PUT | DELETE) {
        let (value, after) = rest.split_first_chunk::<4>()?;
        let (head, after) = after.split_first_chunk::<4>()?;
        sums = Some((u32::from_le_bytes(*value), u32::from_le_bytes(*head)));
        rest = after;
    }
    let key_length = usize::try_from(u32::from_le_bytes(*key_length)).ok()?;
    let (key, value) = rest.split_at_checked(key_length)?;
    let delete = match *kind {
        UNCHECKED_PUT | PUT => false,
        UNCHECKED_DELETE | DELETE => true,
        _ => return None,
    };
    if let Some((_, expected)) = sums {
        let signed = bytes.get(..HEAD - 4)?;
        if sum(&[&revision.to_le_bytes(), signed, key]) != expected {
            return None;
        }
    }
    let key: Arc<str> = Arc::from(std::str::from_utf8(key).ok()?);
    let damage = match sums {
        Some((expected, _)) if sum(&[value]) != expected => {
            Some("its content does not match its checksum".to_owned())
        }
        Some(_) => None,
        // Without a checksum the prefix is the only evidence that the length of the key is right.
        None if !key.starts_with(ROOT) => return None,
        None => check(&key, value).err(),
    };
    let create = u64::from_le_bytes(*create);
    let value = Bytes::copy_from_slice(value);
    let entry = Entry::new(key, value, create, revision, None);
    Some(Record {
        entry: match damage {
            Some(reason) => entry.damaged(&reason),
            None => entry,
        },
        delete,
    })
}

/// A record with a damaged head, under its likely key. It counts as an object, not as a deletion:
/// so the previous version does not reappear unnoticed, and the damaged one can be deleted.
fn guess(revision: u64, bytes: &[u8]) -> Option<Record> {
    // The key follows the head. A match further inside would be a path quoted in the object's own
    // content.
    let near = bytes.get(..bytes.len().min(HEAD + 2 * ROOT.len()))?;
    let at = near
        .windows(ROOT.len())
        .position(|window| window == ROOT.as_bytes())?;
    let (_, from_key) = bytes.split_at_checked(at)?;
    // Names of objects and resources have none of these, and every object begins with a brace.
    let end = from_key
        .iter()
        .position(|byte| *byte == b'{' || !byte.is_ascii_graphic())
        .unwrap_or(from_key.len());
    let (key, value) = from_key.split_at_checked(end)?;
    let key = std::str::from_utf8(key).ok()?;
    let below = key.strip_prefix(ROOT)?;
    if !below.contains('/') || below.split('/').any(str::is_empty) {
        return None;
    }
    let value = Bytes::copy_from_slice(value);
    let entry = Entry::new(Arc::from(key), value, revision, revision, None);
    Some(Record {
        entry: entry
            .damaged("its head does not match its checksum, so that its key may be another"),
        delete: false,
    })
}

fn sum(parts: &[&[u8]]) -> u32 {
    let mut crc = Crc::new();
    for part in parts {
        crc.update(part);
    }
    crc.sum()
}

/// The identity of an object.
#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

#[derive(Deserialize)]
struct Metadata<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    namespace: Cow<'a, str>,
}

/// Checks that the bytes under a key are the JSON of an object of that name. They are sent to
/// clients unchanged, where one broken item would break the whole list.
pub(super) fn check(key: &str, value: &[u8]) -> Result<(), String> {
    // First, since skipping over a string does not validate its bytes.
    let text = std::str::from_utf8(value).map_err(|error| error.to_string())?;
    let object: Object<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if !text.trim_start().starts_with('{') {
        return Err("it is not a JSON object".to_owned());
    }
    let Metadata { name, namespace } = object.metadata;
    let matches = key
        .strip_suffix(&*name)
        .and_then(|key| key.strip_suffix('/'))
        .is_some_and(|key| {
            namespace.is_empty()
                || key
                    .strip_suffix(&*namespace)
                    .is_some_and(|key| key.ends_with('/'))
        });
    if matches {
        Ok(())
    } else {
        Err(format!(
            "it is the object {name:?} of namespace {namespace:?}"
        ))
    }
}
