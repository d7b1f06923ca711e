//! Location and field paths of the HyperConverged, which differ between versions.

use std::sync::Arc;

use api::advisor::TargetRef;
use kube_core::DynamicObject;
use serde_json::{Map, Value, json};

use super::kinds::HYPER_CONVERGED;
use crate::snapshot::Snapshot;

/// The name that its operator requires.
pub(super) const NAME: &str = "kubevirt-hyperconverged";
/// The namespace in OpenShift Virtualization; for the community version the live object is looked up.
const NAMESPACE: &str = "openshift-cnv";
/// The version with all fields directly below `spec`.
const FLAT: &str = "v1beta1";

/// The HyperConverged of the cluster, existing or not.
pub(super) struct HyperConverged<'a> {
    /// Its reference.
    pub(super) target: TargetRef,
    object: Option<&'a Arc<DynamicObject>>,
    flat: bool,
}

impl<'a> HyperConverged<'a> {
    /// The HyperConverged of this cluster.
    pub(super) fn of(snapshot: &'a Snapshot) -> Self {
        let kind = snapshot.kind(HYPER_CONVERGED);
        let version = kind.map_or(FLAT, |kind| &kind.version);
        // The expected namespace first: a leftover object elsewhere must not win by its place in the order.
        let expected = snapshot.get(HYPER_CONVERGED, NAMESPACE, NAME);
        let object = expected.or_else(|| {
            let mut all = snapshot.list(HYPER_CONVERGED);
            all.find(|object| object.metadata.name.as_deref() == Some(NAME))
        });
        let namespace = object.and_then(|object| object.metadata.namespace.as_deref());
        Self {
            target: TargetRef {
                api_version: format!("{}/{version}", HYPER_CONVERGED.group),
                kind: HYPER_CONVERGED.kind.to_owned(),
                name: NAME.to_owned(),
                namespace: Some(namespace.unwrap_or(NAMESPACE).to_owned()),
            },
            object,
            flat: version == FLAT,
        }
    }

    /// Whether it exists.
    pub(super) fn exists(&self) -> bool {
        self.object.is_some()
    }

    /// The path of a field in the served version.
    pub(super) fn path(&self, field: &str) -> String {
        let parent = if self.flat {
            "spec"
        } else {
            "spec.virtualization"
        };
        format!("{parent}.{field}")
    }

    /// The value of a field.
    pub(super) fn value(&self, field: &str) -> Option<&'a Value> {
        let mut value = &self.object?.data;
        for step in self.path(field).split('.') {
            value = value.get(step)?;
        }
        Some(value)
    }

    /// The `spec` with these fields.
    pub(super) fn spec(&self, fields: Map<String, Value>) -> Value {
        if self.flat {
            Value::Object(fields)
        } else {
            json!({ "virtualization": fields })
        }
    }
}

/// A path in the version before the fields moved.
pub(super) fn flat_path(path: &str) -> String {
    match path.strip_prefix("spec.virtualization.") {
        Some(field) => format!("spec.{field}"),
        None => path.to_owned(),
    }
}
