//! The parameters of a write, besides the objects.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::schema::{Schema, TypeRef};
use super::set::FieldSet;

/// The versions that a kind is served in.
pub trait Versions {
    /// The merge type of the kind in that version; `None` when it is not served.
    fn merge_type(&self, api_version: &str) -> Option<(Arc<Schema>, TypeRef)>;

    /// The object in another version; `None` when that is not served.
    fn convert(&self, object: &Value, api_version: &str) -> Option<Value>;

    /// The empty object that a create is compared with. Go types have fields that are present even when
    /// empty (`spec` of a Deployment), and these get no owner. Custom resources have none, which is the
    /// default.
    fn empty_object(&self, api_version: &str) -> Option<Value> {
        let _ = api_version;
        None
    }
}

/// The manager, version and time of a write.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The versions of the kind.
    pub versions: &'a dyn Versions,
    /// Name of the manager; empty is `unknown`.
    pub manager: &'a str,
    /// `apiVersion` of the endpoint.
    pub api_version: &'a str,
    /// `kind` of the endpoint.
    pub kind: &'a str,
    /// Name of the subresource, empty for the object itself.
    pub subresource: &'a str,
    /// Fields that the endpoint does not write: neither owned nor in conflict.
    pub reset: &'a FieldSet,
    /// When.
    pub now: Timestamp,
}

impl Request<'_> {
    /// The manager, as entries name it.
    pub(super) fn manager_name(&self) -> &str {
        if self.manager.is_empty() {
            "unknown"
        } else {
            self.manager
        }
    }

    /// The object before anything is in it.
    pub(super) fn empty_object(&self) -> Value {
        self.versions
            .empty_object(self.api_version)
            .unwrap_or_else(|| json!({"apiVersion": self.api_version, "kind": self.kind}))
    }
}

/// `namespace/name; group/version, Kind=kind`, as failures name an object.
pub(super) fn object_label(object: &Value) -> String {
    let meta = |name: &str| {
        object
            .get("metadata")
            .and_then(|meta| meta.get(name))
            .and_then(Value::as_str)
            .unwrap_or("")
    };
    format!(
        "{}/{}; {}",
        meta("namespace"),
        meta("name"),
        kind_label(object)
    )
}

/// `group/version, Kind=kind` of an object; empty parts when they are missing or malformed.
pub(super) fn kind_label(object: &Value) -> String {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or("");
    match crate::gvk::GroupVersionKind::from_api_version(text("apiVersion"), text("kind")) {
        Some(kind) => kind.to_string(),
        None => "/, Kind=".to_owned(),
    }
}

/// A copy without `metadata.managedFields`, which are often the larger part of an object.
pub(super) fn clone_unmanaged(object: &Value) -> Value {
    let Value::Object(fields) = object else {
        return object.clone();
    };
    let copy = |name: &str, value: &Value| match value {
        Value::Object(meta) if name == "metadata" => {
            let kept = meta.iter().filter(|(name, _)| *name != "managedFields");
            Value::Object(
                kept.map(|(name, value)| (name.clone(), value.clone()))
                    .collect(),
            )
        }
        _ => value.clone(),
    };
    Value::Object(
        fields
            .iter()
            .map(|(name, value)| (name.clone(), copy(name, value)))
            .collect::<Map<String, Value>>(),
    )
}
