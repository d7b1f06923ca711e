//! Entries of the store, and the events that change them.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;
use parking_lot::Mutex;
use serde::Deserialize as _;
use serde_json::Value;

use super::{StoreError, record};

/// One version of one object. Shared as `Arc<Entry>` by readers, lists, history and watchers, so
/// that the bytes are serialised once and never copied.
pub struct Entry {
    /// The full key, `/registry/configmaps/default/settings`.
    pub key: Arc<str>,
    /// The object as JSON.
    pub value: Bytes,
    /// The revision that created the key (it changes after delete and re-create).
    pub create_revision: u64,
    /// The revision that wrote this version.
    pub mod_revision: u64,
    /// The form set by its writer ([`Write::form`](super::Write::form)); `None` if it was read from
    /// disk.
    pub form: Option<u64>,
    /// Why it cannot be served, determined once.
    damage: OnceLock<Option<Box<str>>>,
    decoded: Mutex<Weak<Value>>,
}

impl Entry {
    pub(super) fn new(
        key: Arc<str>,
        value: Bytes,
        create_revision: u64,
        mod_revision: u64,
        form: Option<u64>,
    ) -> Self {
        Self {
            key,
            value,
            create_revision,
            mod_revision,
            form,
            damage: OnceLock::new(),
            decoded: Mutex::new(Weak::new()),
        }
    }

    /// The same, known to be intact: just encoded by the server itself.
    pub(super) fn sound(self) -> Self {
        // The first result stays.
        let _ = self.damage.set(None);
        self
    }

    /// The same, known to be damaged.
    pub(super) fn damaged(self, reason: &str) -> Self {
        let _ = self.damage.set(Some(reason.into()));
        self
    }

    /// Why the content cannot be served, if it cannot: it is not the JSON of the object that the
    /// key names, or the record does not match its checksum. Bytes that were not encoded by this
    /// process are checked on first use, which costs a tenth of parsing them.
    pub fn damage(&self) -> Option<&str> {
        self.damage
            .get_or_init(|| {
                record::check(&self.key, &self.value)
                    .err()
                    .map(String::into_boxed_str)
            })
            .as_deref()
    }

    /// As [`Self::damage`], without checking.
    pub(super) fn known_damage(&self) -> Option<&str> {
        self.damage.get()?.as_deref()
    }

    /// The parsed object, shared while in use: two hundred watchers with selectors share one parsed
    /// pod, and twenty thousand idle pods are just their bytes, which take a tenth of the memory.
    pub fn object(&self) -> Result<Arc<Value>, StoreError> {
        // Held while parsing: two hundred watchers of one event would otherwise parse it two
        // hundred times at once.
        let mut decoded = self.decoded.lock();
        if let Some(object) = decoded.upgrade() {
            return Ok(object);
        }
        if let Some(reason) = self.known_damage() {
            return Err(StoreError::Damaged {
                key: Arc::clone(&self.key),
                reason: reason.to_owned(),
            });
        }
        let parsed = parse(&self.value).map_err(|source| StoreError::Decode {
            key: Arc::clone(&self.key),
            source: Arc::new(source),
        })?;
        let object = Arc::new(parsed);
        *decoded = Arc::downgrade(&object);
        Ok(object)
    }
}

/// Parses stored bytes. Their depth was checked on input, and managed fields nest a few levels
/// deeper than the fields themselves: no second limit.
fn parse(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    reader.disable_recursion_limit();
    let value = Value::deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("key", &self.key)
            .field("value", &self.value)
            .field("create_revision", &self.create_revision)
            .field("mod_revision", &self.mod_revision)
            .finish_non_exhaustive()
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.mod_revision == other.mod_revision
            && self.create_revision == other.create_revision
            && self.key == other.key
            && self.value == other.value
    }
}

impl Eq for Entry {}

/// The effect of an event on its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A version was written; `created` when the key did not exist before.
    Put {
        /// Whether the key is new.
        created: bool,
    },
    /// The key was removed.
    Delete,
}

/// One change. Every change has its own revision.
#[derive(Debug, PartialEq, Eq)]
pub struct Event {
    /// The revision of this change.
    pub revision: u64,
    /// The effect.
    pub kind: EventKind,
    /// The version written; for a delete the last content of the object, carrying the revision
    /// of the delete.
    pub entry: Arc<Entry>,
    /// The version before, if there was one.
    pub previous: Option<Arc<Entry>>,
}

impl Event {
    /// A change of `entry`'s key at its `mod_revision`.
    pub(super) fn new(entry: Entry, delete: bool, previous: Option<Arc<Entry>>) -> Self {
        let kind = if delete {
            EventKind::Delete
        } else {
            EventKind::Put {
                created: previous.is_none(),
            }
        };
        Self {
            revision: entry.mod_revision,
            kind,
            entry: Arc::new(entry),
            previous,
        }
    }

    /// Whether this is a delete.
    pub fn is_delete(&self) -> bool {
        self.kind == EventKind::Delete
    }

    /// The version of the key that is current after this event.
    pub(super) fn after(&self) -> Option<&Arc<Entry>> {
        (!self.is_delete()).then_some(&self.entry)
    }

    /// Bytes that only history keeps alive once this event is the newest of its key.
    pub(super) fn history_bytes(&self) -> usize {
        let own = if self.is_delete() {
            self.entry.value.len()
        } else {
            0
        };
        own + self
            .previous
            .as_ref()
            .map_or(0, |previous| previous.value.len())
    }
}
