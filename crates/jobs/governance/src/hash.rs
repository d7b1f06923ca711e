//! Hashes of the targets of a plan, of the state applied to one, and of a plan.
//!
//! All are SHA-256 over JSON as Go serializes it, with sorted keys, prefixed with `sha256:`. Hashes without the prefix
//! are accepted as well.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::advisor::{
    ApprovalPolicy, FailurePolicy, Impact, Item, MaintenanceWindow, Operation, TargetRef, names,
};
use machinery::json;
use serde::Serialize;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::values::{self, PathError};

const PREFIX: &str = "sha256:";

/// The hash of the managed fields of targets, each given with its managed paths and the live object, if any.
///
/// The hashed text maps `group/version/Kind/namespace/name` to the values by path; a missing target to
/// `{"__state":"NOT_FOUND"}`. A target that occurs twice counts with the paths of both, so that none is left unguarded.
pub fn snapshot_hash<'a>(
    entries: impl IntoIterator<Item = (&'a TargetRef, &'a [String], Option<&'a Value>)>,
) -> Result<String, PathError> {
    let mut targets: BTreeMap<String, BTreeMap<String, Value>> = BTreeMap::new();
    for (target, paths, object) in entries {
        let fields = match object {
            Some(object) => values::managed(object, paths)?,
            None => not_found(),
        };
        targets.entry(key(target)).or_default().extend(fields);
    }
    Ok(digest(&targets))
}

/// The hash of the managed fields applied to a target.
pub fn applied_hash(values: &BTreeMap<String, Value>) -> String {
    digest(values)
}

/// The hash of the content of a profile.
pub fn content_hash<T: Serialize>(content: &T) -> String {
    digest(content)
}

/// The inputs of a plan besides its items: the object, and the spec fields that control the execution.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanTerms {
    /// `metadata.uid` of the configuration: a recreated one has other plans.
    pub uid: String,
    /// The revision of the plan in the history, or its future one. No two executed plans share it, so that their
    /// digests differ even if everything else is equal, as when a plan is undone and generated again.
    pub revision: i64,
    /// The revision to roll back to, if it is a rollback.
    pub rollback_to: Option<i64>,
    /// The reaction to a failed item.
    pub failure_policy: FailurePolicy,
    /// The maximum time for an item to become healthy.
    pub wait_timeout: Option<String>,
    /// When disruptive items may start.
    pub maintenance_windows: Vec<MaintenanceWindow>,
    /// Whether locks are bypassed.
    pub bypass_optimistic_lock: bool,
    /// The configuration's own requirement: lowering it leads to another plan, which needs approvals of its own.
    pub approval_policy: Option<ApprovalPolicy>,
    /// The hash of a PlatformProfile: with another content, it is another plan. The content of a built-in profile
    /// belongs to the version of the program, whose plans are compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
}

/// The digest of a plan for approvals: it covers everything that affects the execution.
///
/// Informational fields do not count: messages, states, times, the diff, and the annotation with the hash of the
/// applied state. Nor do `resourceVersion`s of targets, because status updates change them; the uid of a target and the
/// values of its managed fields identify its state.
pub fn plan_digest(terms: &PlanTerms, items: &[Item]) -> String {
    let items: Vec<Content<'_>> = items.iter().map(Content::of).collect();
    digest(&json!({ "terms": terms, "items": items }))
}

/// The digested part of an item.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Content<'a> {
    name: &'a str,
    target_ref: &'a TargetRef,
    target_uid: Option<&'a str>,
    operation: Operation,
    impact: Option<Impact>,
    desired_state: Option<Value>,
    managed_fields: &'a [String],
    depends_on: &'a [String],
    base: BTreeMap<String, Value>,
    /// Field, manager, and whether it was ours before.
    takeovers: Vec<(&'a str, &'a str, bool)>,
}

impl<'a> Content<'a> {
    fn of(item: &'a Item) -> Self {
        let takeovers = item.takeovers.iter();
        Self {
            name: &item.name,
            target_ref: &item.target_ref,
            target_uid: item.target_uid.as_deref(),
            operation: item.operation,
            impact: item.impact_severity,
            desired_state: item.desired_state.as_ref().map(without_hash),
            managed_fields: &item.managed_fields,
            depends_on: &item.depends_on,
            // An absent target and one without any managed field are different states.
            base: item.base.clone().unwrap_or_else(not_found),
            takeovers: takeovers
                .map(|one| (one.path.as_str(), one.manager.as_str(), one.reclaimed))
                .collect(),
        }
    }
}

/// An object without the hash annotation, and without the maps that are empty then.
fn without_hash(object: &Value) -> Value {
    let mut object = object.clone();
    remove_annotation(&mut object, names::APPLIED_PROFILE_HASH);
    object
}

/// Removes an annotation, and the annotations map if it is empty then.
pub(crate) fn remove_annotation(object: &mut Value, name: &str) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(annotations) = metadata
        .get_mut("annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.remove(name);
    }
    if metadata
        .get("annotations")
        .and_then(Value::as_object)
        .is_some_and(Map::is_empty)
    {
        metadata.remove("annotations");
    }
}

fn not_found() -> BTreeMap<String, Value> {
    // As in the prototype (internal/plan/plan.go), whose published hashes are test vectors here.
    BTreeMap::from([("__state".to_owned(), json!("NOT_FOUND"))])
}

/// `group/version/Kind/namespace/name`; the core group is empty, a missing namespace is left out.
fn key(target: &TargetRef) -> String {
    let slash = if target.api_version.contains('/') {
        ""
    } else {
        "/"
    };
    let mut key = format!("{slash}{}/{}", target.api_version, target.kind);
    if let Some(namespace) = target.namespace.as_deref().filter(|name| !name.is_empty()) {
        key.push('/');
        key.push_str(namespace);
    }
    key.push('/');
    key.push_str(&target.name);
    key
}

fn digest<T: Serialize>(content: &T) -> String {
    PREFIX.to_owned() + &hex(&Sha256::digest(json::to_vec(content)))
}

/// Bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
