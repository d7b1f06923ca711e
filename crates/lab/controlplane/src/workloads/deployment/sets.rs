//! Creation and lookup of a Deployment's ReplicaSets.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::sizes::Size;
use super::wanted::Wanted;
use crate::object::{self, controller_reference};
use crate::workloads::history;

const HASH: &str = "pod-template-hash";
/// Maximum length of an object name.
const NAME_MAX: usize = 253;

/// Desired replicas of a set.
pub(super) fn replicas(set: &ReplicaSet) -> i32 {
    let spec = set.spec.as_ref();
    spec.and_then(|spec| spec.replicas).unwrap_or(1)
}

/// Desired and available replicas of a set.
pub(super) fn size(set: &ReplicaSet) -> Size {
    let status = set.status.as_ref();
    Size {
        replicas: replicas(set),
        available: status
            .and_then(|status| status.available_replicas)
            .unwrap_or_default(),
    }
}

/// Older sets come first.
pub(super) fn age(set: &ReplicaSet) -> (Option<Timestamp>, Option<String>) {
    let meta = &set.metadata;
    let created = meta.creation_timestamp.as_ref().map(|at| at.0);
    (created, meta.name.clone())
}

/// The semantic content of a template: without its hash label, and with empty fields normalized.
pub(super) fn essence(template: Option<&PodTemplateSpec>) -> Value {
    let mut value = serde_json::to_value(template).unwrap_or_default();
    if let Some(labels) = value.pointer_mut("/metadata/labels")
        && let Some(labels) = labels.as_object_mut()
    {
        labels.remove(HASH);
    }
    prune(&mut value);
    value
}

fn prune(value: &mut Value) {
    let says_nothing = |value: &Value| match value {
        Value::Null => true,
        Value::Object(members) => members.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        _ => false,
    };
    match value {
        Value::Object(members) => {
            members.values_mut().for_each(prune);
            // An empty struct can be meaningful (emptyDir: {}); an empty list or null is not.
            members.retain(|key, member| {
                !(says_nothing(member) && (!member.is_object() || MAPS.contains(&key.as_str())))
            });
        }
        Value::Array(elements) => elements.iter_mut().for_each(prune),
        _ => {}
    }
}

/// Fields that are maps, and structs that mean nothing when empty.
const MAPS: [&str; 6] = [
    "annotations",
    "labels",
    "limits",
    "metadata",
    "nodeSelector",
    "requests",
];

/// The set for the template of a deployment, with zero replicas.
pub(super) fn fresh(deployment: &Deployment, wanted: &Wanted) -> ReplicaSet {
    let Some(spec) = &deployment.spec else {
        return ReplicaSet::default();
    };
    let collisions = deployment.status.as_ref().and_then(|it| it.collision_count);
    let written = serde_json::to_value(&spec.template).unwrap_or_default();
    let hash = history::hash(&written, collisions);
    let mut template = spec.template.clone();
    let labels = {
        let meta = template.metadata.get_or_insert_default();
        let labels = meta.labels.get_or_insert_default();
        labels.insert(HASH.to_owned(), hash.clone());
        labels.clone()
    };
    let mut selector = spec.selector.clone();
    let wanted_labels: &mut BTreeMap<_, _> = selector.match_labels.get_or_insert_default();
    wanted_labels.insert(HASH.to_owned(), hash.clone());
    let meta = &deployment.metadata;
    ReplicaSet {
        metadata: ObjectMeta {
            name: Some(name(object::name(meta), &hash)),
            namespace: meta.namespace.clone(),
            labels: Some(labels),
            owner_references: Some(vec![controller_reference(deployment)]),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            replicas: Some(0),
            min_ready_seconds: Some(wanted.min_ready_seconds).filter(|seconds| *seconds != 0),
            selector,
            template: Some(template),
        }),
        status: None,
    }
}

/// The deployment's name, truncated if necessary, and the hash.
fn name(deployment: &str, hash: &str) -> String {
    let most = NAME_MAX.saturating_sub(hash.len() + 1);
    let kept = deployment.get(..most).unwrap_or(deployment);
    format!("{kept}-{hash}")
}
