//! Lookup and pruning of revisions.

use std::collections::HashSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use machinery::json;
use serde_json::{Value, json};

/// Letters and digits that form no words (`SafeEncodeString`).
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// How to get a revision of the current template.
#[derive(Debug, PartialEq)]
pub(super) enum Plan {
    /// The newest has it.
    Keep(Arc<ControllerRevision>),
    /// An older one has it and becomes the newest: a rollback.
    Renumber(Arc<ControllerRevision>, i64),
    /// None has it; create one with this number.
    Create(i64),
}

/// Finds the revision of a template. `revisions` are sorted.
pub(super) fn plan(revisions: &[Arc<ControllerRevision>], wanted: &PodTemplateSpec) -> Plan {
    let Some(newest) = revisions.last() else {
        return Plan::Create(1);
    };
    let number = newest.revision + 1;
    let equal = revisions
        .iter()
        .rev()
        .find(|revision| template(revision).as_ref() == Some(wanted));
    match equal {
        Some(equal) if Arc::ptr_eq(equal, newest) => Plan::Keep(Arc::clone(newest)),
        Some(equal) => Plan::Renumber(Arc::clone(equal), number),
        None => Plan::Create(number),
    }
}

/// The order of revisions: number, age, name.
pub(super) fn sort(revisions: &mut [Arc<ControllerRevision>]) {
    revisions.sort_by_cached_key(|it| {
        let created = it.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (it.revision, created, it.metadata.name.clone())
    });
}

/// The oldest revisions beyond the limit that are not `live`.
pub(in super::super) fn surplus<'a>(
    revisions: &'a [Arc<ControllerRevision>],
    live: &HashSet<String>,
    limit: i32,
) -> Vec<&'a Arc<ControllerRevision>> {
    let Ok(limit) = usize::try_from(limit) else {
        return Vec::new();
    };
    let idle: Vec<_> = revisions
        .iter()
        .filter(|revision| {
            let name = revision.metadata.name.as_ref();
            name.is_none_or(|name| !live.contains(name))
        })
        .collect();
    let many = idle.len().saturating_sub(limit);
    idle.into_iter().take(many).collect()
}

/// The patch that restores a template, which `kubectl rollout undo` applies verbatim.
pub(super) fn data(template: &PodTemplateSpec) -> Value {
    let mut template = serde_json::to_value(template).unwrap_or_default();
    template["$patch"] = "replace".into();
    json!({ "spec": { "template": template } })
}

/// The template of a revision. Upstream may have written other defaults explicitly, which is why
/// revisions are compared semantically.
pub(in super::super) fn template(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let template = revision.data.as_ref()?.0.pointer("/spec/template")?;
    serde_json::from_value(template.clone()).ok()
}

/// A short hash as kube-controller-manager computes it: FNV-1 over the JSON and the collision
/// count, in letters that form no words.
pub(in super::super) fn hash(data: &Value, collisions: Option<i32>) -> String {
    let collisions = collisions.map(|count| count.to_string());
    let bytes = json::to_vec(data);
    let sum = bytes
        .iter()
        .chain(collisions.as_deref().unwrap_or_default().as_bytes())
        .fold(2_166_136_261_u32, |sum, byte| {
            sum.wrapping_mul(16_777_619) ^ u32::from(*byte)
        });
    let letter = |digit: u8| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()]);
    sum.to_string().bytes().map(letter).collect()
}
