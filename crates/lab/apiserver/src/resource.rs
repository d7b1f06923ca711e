//! A served resource: a kind in one version, and the location of its objects in the store.

mod autoscalers;
mod events;
mod template;

use std::borrow::Cow;
use std::sync::Arc;

use machinery::apply::{Schema, TypeRef, Versions};
use machinery::field::FieldError;
use machinery::gvk::GroupResource;
use machinery::meta;
use machinery::status::Status;
use serde_json::Value;

use crate::kind::{KindInfo, Strategy};
use crate::store::Entry;

pub(crate) use autoscalers::AutoscalerView;
pub(crate) use events::EventView;
pub(crate) use template::Template;

/// Conversion between stored objects and the requested version.
pub(crate) trait Conversion: Send + Sync {
    /// Whether stored objects can be sent unchanged.
    fn is_identity(&self) -> bool;
    /// A mark for the output of [`write_stored`](Self::write_stored), if that can be sent unchanged
    /// as long as this conversion is in force.
    fn form(&self) -> Option<u64> {
        None
    }
    /// From the stored form.
    fn read_stored(&self, object: Value) -> Value;
    /// To the stored form.
    fn write_stored(&self, object: Value) -> Value;
    /// An object of the requested version in another version of the same resource, for field
    /// ownership recorded there; `None` for an unknown version.
    fn to_version(&self, object: &Value, api_version: &str) -> Option<Value>;
    /// The merge type of another version of the same resource.
    fn merge_type_of(&self, api_version: &str) -> Option<(Arc<Schema>, TypeRef)>;
}

/// Properties of custom resources beyond built-in kinds.
#[derive(Debug, Clone, Default)]
pub(crate) struct CustomTraits {
    /// The CRD is being deleted: no objects are created.
    pub(crate) terminating: bool,
    /// The CRD.
    pub(crate) definition: Arc<Value>,
}

/// A served resource.
pub(crate) struct Resource {
    /// Names and properties.
    pub(crate) info: KindInfo,
    /// Behaviour.
    pub(crate) strategy: Arc<dyn Strategy>,
    /// Version handling.
    pub(crate) conversion: Arc<dyn Conversion>,
    /// Key prefix of the collection, ending in a slash.
    pub(crate) prefix: String,
    /// `Some` for custom resources.
    pub(crate) custom: Option<CustomTraits>,
}

impl Resource {
    /// The first bytes of every stored built-in object. Go writes the type first, and items of
    /// built-in lists omit it: with a fixed prefix it can be cut off without parsing.
    fn type_head(&self) -> String {
        format!(
            "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",",
            self.info.gvk.kind,
            self.api_version()
        )
    }

    /// The fields of a stored built-in object after its type, closing brace included; `None` for
    /// custom resources, whose items keep their type.
    pub(crate) fn without_type<'a>(&self, value: &'a [u8]) -> Option<&'a [u8]> {
        if self.custom.is_some() {
            None
        } else {
            value.strip_prefix(self.type_head().as_bytes())
        }
    }

    /// Key of an object; `namespace` is empty for cluster-scoped kinds.
    pub(crate) fn key(&self, namespace: &str, name: &str) -> String {
        if self.info.namespaced {
            format!("{}{namespace}/{name}", self.prefix)
        } else {
            format!("{}{name}", self.prefix)
        }
    }

    /// Prefix of the objects of a namespace, or of all when `namespace` is empty.
    pub(crate) fn collection(&self, namespace: &str) -> String {
        if self.info.namespaced && !namespace.is_empty() {
            format!("{}{namespace}/", self.prefix)
        } else {
            self.prefix.clone()
        }
    }

    /// Group and plural.
    pub(crate) fn group_resource(&self) -> GroupResource {
        self.info.group_resource()
    }

    /// `apiVersion` of the version served.
    pub(crate) fn api_version(&self) -> String {
        self.info.gvk.api_version()
    }

    /// Whether the stored bytes of an entry can be sent unchanged.
    pub(crate) fn is_verbatim(&self, entry: &Entry) -> bool {
        // Compared with the mark on the entry, not with the version: an object written before a
        // default was added to the schema has to get it when it is read.
        let form = self.conversion.form();
        self.conversion.is_identity() || form.is_some() && entry.form == form
    }

    /// The error for an object with a damaged record, if it is one. The reason is kube-apiserver's
    /// for objects it cannot decode from etcd.
    pub(crate) fn damage(entry: &Entry) -> Option<Status> {
        let reason = entry.damage()?;
        let message = format!(
            "the stored object {:?} is damaged: {reason}; delete it, or stop the server and restore the store file",
            entry.key
        );
        Some(Status::failure(500, "StorageReadError", &message))
    }

    /// A damaged object without its content: the type, and the name from its key. Watchers get it
    /// when the object is deleted.
    pub(crate) fn placeholder(&self, entry: &Entry) -> Value {
        let below = entry.key.strip_prefix(&self.prefix).unwrap_or_default();
        let mut object = serde_json::json!({
            "kind": self.info.gvk.kind,
            "apiVersion": self.api_version(),
            "metadata": {},
        });
        match below.split_once('/').filter(|_| self.info.namespaced) {
            Some((namespace, name)) => {
                meta::set(&mut object, "namespace", namespace);
                meta::set(&mut object, "name", name);
            }
            None => meta::set(&mut object, "name", below),
        }
        object
    }

    /// The object of an entry in the served version.
    pub(crate) fn read(&self, entry: &Entry) -> Result<Value, Status> {
        if let Some(status) = Self::damage(entry) {
            return Err(status);
        }
        let object = entry
            .object()
            .map_err(|error| Status::internal(&error.to_string()))?;
        // Without a copy if no other reader holds the parsed object.
        let object = Arc::unwrap_or_clone(object);
        if self.is_verbatim(entry) {
            return Ok(object);
        }
        Ok(self.serve(object))
    }

    /// A stored object in the served version.
    pub(crate) fn serve(&self, object: Value) -> Value {
        self.conversion.read_stored(object)
    }

    /// The error for an invalid object. It names the internal kind; for events there is only that
    /// of the core group.
    pub(crate) fn invalid(&self, name: &str, errors: &[FieldError]) -> Status {
        let gvk = &self.info.gvk;
        let group = match gvk.group.as_str() {
            "events.k8s.io" if self.custom.is_none() => "",
            group => group,
        };
        Status::invalid_as(group, &gvk.kind, name, errors)
    }

    /// The error for a missing object.
    pub(crate) fn not_found(&self, name: &str) -> Status {
        Status::not_found(&self.group_resource(), name)
    }

    /// An object of the served version, encoded for the store except for its revision.
    pub(crate) fn template(&self, object: Value) -> Template {
        let type_first = self.custom.is_none() && self.conversion.is_identity();
        Template::new(&self.conversion.write_stored(object), type_first)
    }

    /// The value of a field for selectors.
    pub(crate) fn field_of(&self, object: &Value, field: &str) -> Option<String> {
        match field {
            "metadata.name" => Some(meta::name(object).to_owned()),
            "metadata.namespace" => Some(meta::namespace(object).to_owned()),
            other => self.strategy.selectable(object, other),
        }
    }

    /// Whether a field selector may use the field.
    pub(crate) fn is_selectable(&self, field: &str) -> bool {
        field == "metadata.name"
            || (field == "metadata.namespace" && self.info.namespaced)
            || self.strategy.is_selectable(field)
    }

    /// Name of an object in messages: its name, or its generateName when it has none yet.
    pub(crate) fn display_name(object: &Value) -> Cow<'_, str> {
        let name = meta::name(object);
        Cow::Borrowed(if name.is_empty() {
            meta::generate_name_base(object)
        } else {
            name
        })
    }
}

impl Versions for Resource {
    fn merge_type(&self, api_version: &str) -> Option<(Arc<Schema>, TypeRef)> {
        if api_version == self.api_version() {
            Some(self.strategy.merge_type())
        } else {
            self.conversion.merge_type_of(api_version)
        }
    }

    fn convert(&self, object: &Value, api_version: &str) -> Option<Value> {
        if api_version == self.api_version() {
            Some(object.clone())
        } else {
            self.conversion.to_version(object, api_version)
        }
    }

    fn empty_object(&self, api_version: &str) -> Option<Value> {
        if self.custom.is_some() || api_version != self.api_version() {
            return None;
        }
        // Decoding an empty object gives Go's zero value.
        let nothing = serde_json::json!({"apiVersion": api_version, "kind": self.info.gvk.kind});
        self.strategy
            .decode(nothing)
            .ok()
            .map(|decoded| decoded.object)
    }
}

/// Conversion of resources that are stored in their served form.
pub(crate) struct Identity;

impl Conversion for Identity {
    fn is_identity(&self) -> bool {
        true
    }

    fn read_stored(&self, object: Value) -> Value {
        object
    }

    fn write_stored(&self, object: Value) -> Value {
        object
    }

    fn to_version(&self, _object: &Value, _api_version: &str) -> Option<Value> {
        None
    }

    fn merge_type_of(&self, _api_version: &str) -> Option<(Arc<Schema>, TypeRef)> {
        None
    }
}
