//! Versions of a custom resource: the same object under another apiVersion, with that version's
//! defaults (conversion strategy `None`).

use std::sync::Arc;

use machinery::apply::{Schema, TypeRef};
use serde_json::Value;

use super::strategy::CustomStrategy;
use crate::kind::Strategy as _;
use crate::resource::Conversion;

/// All versions of a definition.
pub(crate) struct Versions {
    /// `apiVersion` of what is stored.
    pub(crate) storage: String,
    /// Behaviour by `apiVersion`.
    pub(crate) all: Vec<(String, Arc<CustomStrategy>)>,
}

impl Versions {
    fn find(&self, api_version: &str) -> Option<&Arc<CustomStrategy>> {
        self.all
            .iter()
            .find(|(name, _)| name == api_version)
            .map(|(_, strategy)| strategy)
    }
}

/// Conversion between the stored version and a served one.
pub(crate) struct CustomConversion {
    /// `apiVersion` served.
    pub(crate) served: String,
    /// All there are.
    pub(crate) versions: Arc<Versions>,
    /// Nothing to do on reading: one version, and no defaults that older objects might lack.
    pub(crate) verbatim: bool,
}

impl Conversion for CustomConversion {
    fn is_identity(&self) -> bool {
        self.verbatim
    }

    fn read_stored(&self, mut object: Value) -> Value {
        if let Some(fields) = object.as_object_mut() {
            fields.insert("apiVersion".into(), self.served.clone().into());
        }
        if let Some(strategy) = self.versions.find(&self.served) {
            strategy.default(&mut object);
        }
        object
    }

    fn write_stored(&self, mut object: Value) -> Value {
        if let Some(fields) = object.as_object_mut() {
            fields.insert("apiVersion".into(), self.versions.storage.clone().into());
        }
        object
    }

    fn to_version(&self, object: &Value, api_version: &str) -> Option<Value> {
        self.versions.find(api_version)?;
        let mut object = object.clone();
        object
            .as_object_mut()?
            .insert("apiVersion".into(), api_version.into());
        Some(object)
    }

    fn merge_type_of(&self, api_version: &str) -> Option<(Arc<Schema>, TypeRef)> {
        self.versions
            .find(api_version)
            .map(|strategy| strategy.merge_type())
    }
}
