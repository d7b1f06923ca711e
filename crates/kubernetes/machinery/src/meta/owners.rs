//! Owner references.

use serde_json::Value;

/// One entry of `metadata.ownerReferences`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnerReference<'a> {
    /// `apiVersion` of the owner.
    pub api_version: &'a str,
    /// Kind of the owner.
    pub kind: &'a str,
    /// Name of the owner.
    pub name: &'a str,
    /// Uid of the owner.
    pub uid: &'a str,
    /// Whether the owner is the managing controller; `None` if absent.
    pub controller: Option<bool>,
    /// Whether foreground deletion of the owner waits for this object; `None` if absent.
    pub block_owner_deletion: Option<bool>,
}

impl<'a> OwnerReference<'a> {
    /// Reads one entry; missing fields are empty.
    pub fn read(entry: &'a Value) -> Self {
        let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
        let flag = |field: &str| entry.get(field).and_then(Value::as_bool);
        Self {
            api_version: text("apiVersion"),
            kind: text("kind"),
            name: text("name"),
            uid: text("uid"),
            controller: flag("controller"),
            block_owner_deletion: flag("blockOwnerDeletion"),
        }
    }
}

/// `metadata.ownerReferences` of an object.
pub fn owner_references(object: &Value) -> Vec<OwnerReference<'_>> {
    let entries = object
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array);
    entries
        .map(|entries| entries.iter().map(OwnerReference::read).collect())
        .unwrap_or_default()
}

/// The owner that manages this object.
pub fn controller_of(object: &Value) -> Option<OwnerReference<'_>> {
    owner_references(object)
        .into_iter()
        .find(|owner| owner.controller == Some(true))
}

/// Drops repeated owner references of an object; returns the uid of each one dropped.
pub fn dedup_owner_references(object: &mut Value) -> Vec<String> {
    let entries = object
        .pointer_mut("/metadata/ownerReferences")
        .and_then(Value::as_array_mut);
    let Some(entries) = entries else {
        return Vec::new();
    };
    let mut dropped = Vec::new();
    let mut kept: Vec<Value> = Vec::with_capacity(entries.len());
    let mut seen = std::collections::HashSet::new();
    for entry in std::mem::take(entries) {
        // The whole entry and not the uid: two references to one owner with different `controller` flags are kept,
        // and validation reports them.
        let key = crate::json::to_string(&entry);
        if seen.insert(key) {
            kept.push(entry);
        } else {
            dropped.push(OwnerReference::read(&entry).uid.to_owned());
        }
    }
    *entries = kept;
    dropped
}

/// The `Warning` for dropped owner references.
pub fn duplicate_owners_warning(uids: &[String], after_mutating_admission: bool) -> String {
    let when = if after_mutating_admission {
        " after mutating admission happens"
    } else {
        ""
    };
    format!(
        ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
        uids.join(", ")
    )
}
