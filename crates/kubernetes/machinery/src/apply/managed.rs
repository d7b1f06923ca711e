//! The entries of `metadata.managedFields`.

use std::cmp::Ordering;

use jiff::Timestamp;
use serde_json::{Map, Value};
use thiserror::Error;

use super::fields_v1::FieldsV1Error;
use super::set::FieldSet;
use crate::json;

/// Update entries an object may have; older ones are merged.
// `DefaultMaxUpdateManagers` of `managedfields/internal/fieldmanager.go`. Clients that put a random value into their
// User-Agent would otherwise grow every object they touch without end.
const MAX_UPDATE_ENTRIES: usize = 10;
/// The manager of merged old entries (upstream's name).
const ANCIENT: &str = "ancient-changes";

/// How a manager wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// By server-side apply.
    Apply,
    /// By anything else.
    Update,
}

impl Operation {
    fn text(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// What one manager owns.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) manager: String,
    pub(super) operation: Operation,
    pub(super) api_version: String,
    pub(super) subresource: String,
    /// At the precision of the wire, which is a second.
    pub(super) time: Option<Timestamp>,
    pub(super) set: FieldSet,
}

/// Why `managedFields` cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ManagedFieldsError {
    /// Not a list of objects with fields of the right types.
    #[error("managed fields are malformed at entry {0}")]
    Malformed(usize),
    /// Neither apply nor update.
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    /// No version.
    #[error("apiVersion must not be empty")]
    ApiVersion,
    /// No format.
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    /// A format that is not known.
    #[error("invalid fieldsType {kind:?} in managed fields entry {entry}")]
    FieldsType {
        /// Which entry.
        entry: usize,
        /// The value found.
        kind: String,
    },
    /// A set that cannot be read.
    #[error("error decoding set of managed fields entry {entry}: {source}")]
    Set {
        /// Which entry.
        entry: usize,
        /// Why.
        source: FieldsV1Error,
    },
}

impl Entry {
    /// Whether both are entries of the same manager. An applier keeps its entry when it moves to
    /// another version, an updater has one for each.
    pub(super) fn is_of_same(&self, other: &Self) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// The text that upstream identifies managers by; orders conflicts and merged entries.
    pub(super) fn identity(&self) -> String {
        let quoted = |text: &str| json::to_string(&Value::from(text));
        let mut parts = Vec::with_capacity(4);
        if !self.manager.is_empty() {
            parts.push(format!("\"manager\":{}", quoted(&self.manager)));
        }
        parts.push(format!("\"operation\":\"{}\"", self.operation.text()));
        if self.operation == Operation::Update {
            parts.push(format!("\"apiVersion\":{}", quoted(&self.api_version)));
        }
        if !self.subresource.is_empty() {
            parts.push(format!("\"subresource\":{}", quoted(&self.subresource)));
        }
        format!("{{{}}}", parts.join(","))
    }

    fn seconds(&self) -> i64 {
        self.time.map_or(0, Timestamp::as_second)
    }

    fn decode(index: usize, value: &Value) -> Result<Self, ManagedFieldsError> {
        let malformed = || ManagedFieldsError::Malformed(index);
        let object = value.as_object().ok_or_else(malformed)?;
        let text = |name: &str| match object.get(name) {
            None | Some(Value::Null) => Ok(""),
            Some(Value::String(text)) => Ok(text.as_str()),
            Some(_) => Err(malformed()),
        };
        let operation = match text("operation")? {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err(ManagedFieldsError::Operation),
        };
        let api_version = text("apiVersion")?;
        if api_version.is_empty() {
            return Err(ManagedFieldsError::ApiVersion);
        }
        match text("fieldsType")? {
            "FieldsV1" => {}
            "" => return Err(ManagedFieldsError::NoFieldsType(index)),
            kind => {
                return Err(ManagedFieldsError::FieldsType {
                    entry: index,
                    kind: kind.to_owned(),
                });
            }
        }
        let time = match text("time")? {
            "" => None,
            text => Some(to_second(text.parse().map_err(|_| malformed())?)),
        };
        let set = match object.get("fieldsV1") {
            None => FieldSet::default(),
            Some(fields) => {
                FieldSet::from_fields_v1(fields).map_err(|source| ManagedFieldsError::Set {
                    entry: index,
                    source,
                })?
            }
        };
        Ok(Self {
            manager: text("manager")?.to_owned(),
            operation,
            api_version: api_version.to_owned(),
            subresource: text("subresource")?.to_owned(),
            time,
            set,
        })
    }

    fn encode(&self) -> Value {
        let mut out = Map::new();
        let mut put = |name: &str, value: Value| {
            out.insert(name.to_owned(), value);
        };
        put("apiVersion", self.api_version.as_str().into());
        put("fieldsType", "FieldsV1".into());
        put("fieldsV1", self.set.to_fields_v1());
        if !self.manager.is_empty() {
            put("manager", self.manager.as_str().into());
        }
        put("operation", self.operation.text().into());
        if !self.subresource.is_empty() {
            put("subresource", self.subresource.as_str().into());
        }
        if let Some(time) = self.time {
            put("time", time.to_string().into());
        }
        Value::Object(out)
    }
}

/// Cuts what the wire does not carry.
pub(super) fn to_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// All managers of an object with their fields.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Managed {
    pub(super) entries: Vec<Entry>,
}

impl Managed {
    /// Reads a list of entries; of two with the same manager the later one counts.
    pub(super) fn decode(value: Option<&Value>) -> Result<Self, ManagedFieldsError> {
        let list = match value {
            None | Some(Value::Null) => return Ok(Self::default()),
            Some(Value::Array(list)) => list,
            Some(_) => return Err(ManagedFieldsError::Malformed(0)),
        };
        let mut out = Self {
            entries: Vec::with_capacity(list.len()),
        };
        for (index, value) in list.iter().enumerate() {
            let entry = Entry::decode(index, value)?;
            match out
                .entries
                .iter_mut()
                .find(|there| there.is_of_same(&entry))
            {
                Some(there) => *there = entry,
                None => out.entries.push(entry),
            }
        }
        Ok(out)
    }

    /// The entries of an object.
    pub(super) fn of(object: &Value) -> Result<Self, ManagedFieldsError> {
        Self::decode(managed_fields(object))
    }

    /// The list in wire form; `None` if it is empty.
    pub(super) fn encode(mut self) -> Option<Value> {
        if self.entries.is_empty() {
            return None;
        }
        // Sorted when written, not when changed: `finish` compares lists in order, and
        // an unsorted one would look like a change.
        self.entries.sort_by(wire_order);
        Some(Value::Array(
            self.entries.iter().map(Entry::encode).collect(),
        ))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn drop_empty(&mut self) {
        self.entries.retain(|entry| !entry.set.is_empty());
    }

    /// Merges the oldest Update entries, version by version, until there are few enough.
    pub(super) fn cap(&mut self) {
        let is_update = |entry: &Entry| entry.operation == Operation::Update;
        let mut count = self.entries.iter().filter(|entry| is_update(entry)).count();
        if count <= MAX_UPDATE_ENTRIES {
            return;
        }
        // Oldest first, and by identity within a second: times have no finer resolution, and the result must not
        // depend on the order of the list.
        let mut updaters: Vec<(i64, String, usize)> = self
            .entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| is_update(entry))
            .map(|(index, entry)| (entry.seconds(), entry.identity(), index))
            .collect();
        updaters.sort();
        let mut merged: Vec<usize> = Vec::new();
        // The first entry seen of each version becomes the bucket of that version, unless there
        // is one already.
        let mut firsts: Vec<(String, usize)> = Vec::new();
        for (_, _, index) in updaters {
            if count <= MAX_UPDATE_ENTRIES {
                break;
            }
            let Some(entry) = self.entries.get(index) else {
                continue;
            };
            let version = entry.api_version.clone();
            let Some(first) = firsts
                .iter()
                .find(|(seen, _)| *seen == version)
                .map(|(_, at)| *at)
            else {
                firsts.push((version, index));
                continue;
            };
            let bucket = self
                .entries
                .iter()
                .enumerate()
                .position(|(at, there)| !merged.contains(&at) && there.is_ancient_of(&version));
            let bucket = bucket.unwrap_or(first);
            if bucket == index {
                continue;
            }
            let (set, time) = (entry.set.clone(), entry.time);
            if let Some(there) = self.entries.get_mut(bucket) {
                ANCIENT.clone_into(&mut there.manager);
                // The bucket holds fields of several subresources; upstream gives it none (`capmanagers.go`).
                there.subresource.clear();
                there.set.union_with(set);
                there.time = time;
            }
            merged.push(index);
            count -= 1;
        }
        let mut index = 0;
        self.entries.retain(|_| {
            index += 1;
            !merged.contains(&(index - 1))
        });
    }
}

impl Entry {
    fn is_ancient_of(&self, version: &str) -> bool {
        self.manager == ANCIENT
            && self.operation == Operation::Update
            && self.subresource.is_empty()
            && self.api_version == version
    }
}

fn wire_order(a: &Entry, b: &Entry) -> Ordering {
    let key = |entry: &Entry| (entry.operation, entry.seconds());
    key(a)
        .cmp(&key(b))
        .then_with(|| a.manager.cmp(&b.manager))
        .then_with(|| a.api_version.cmp(&b.api_version))
        .then_with(|| a.subresource.cmp(&b.subresource))
}

/// `metadata.managedFields` of an object.
pub(super) fn managed_fields(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

/// Takes `metadata.managedFields` out of an object.
pub(super) fn take_managed_fields(object: &mut Value) -> Option<Value> {
    object
        .get_mut("metadata")?
        .as_object_mut()?
        .remove("managedFields")
}

/// Writes `metadata.managedFields`; removes it if there are no entries.
pub(super) fn set_managed_fields(object: &mut Value, managed: Managed) {
    let encoded = managed.encode();
    let Some(object) = object.as_object_mut() else {
        return;
    };
    let Some(encoded) = encoded else {
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            metadata.remove("managedFields");
        }
        return;
    };
    let metadata = object
        .entry("metadata")
        .or_insert_with(|| Value::Object(Map::new()));
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
    if let Value::Object(metadata) = metadata {
        metadata.insert("managedFields".to_owned(), encoded);
    }
}

/// Whether an update asks for tracking to start anew: an empty list, or one empty entry.
pub(super) fn is_reset(value: Option<&Value>) -> bool {
    let Some(Value::Array(list)) = value else {
        return false;
    };
    match list.as_slice() {
        [] => true,
        [Value::Object(only)] => only.values().all(|value| match value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            _ => false,
        }),
        _ => false,
    }
}

/// Whether `managedFields` can be read. Mutating admission may break them; the server then puts
/// back what was there before and warns.
pub fn validate_managed_fields(value: &Value) -> Result<(), ManagedFieldsError> {
    Managed::decode(Some(value)).map(|_| ())
}
