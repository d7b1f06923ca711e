//! Versions of a custom resource: the same object under another apiVersion, with that version's
//! defaults (conversion strategy `None`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use machinery::apply::{Schema, TypeRef};
use serde_json::Value;

use super::strategy::CustomStrategy;
use crate::kind::Strategy as _;
use crate::resource::Conversion;

/// All versions of a CRD.
pub(crate) struct Versions {
    /// `apiVersion` of the stored objects.
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
    /// All versions.
    pub(crate) versions: Arc<Versions>,
    /// Whether reading needs no conversion: one version, and no defaults that older objects might
    /// lack.
    verbatim: bool,
    /// Mark of objects written in this version with all its defaults: reading them needs no
    /// conversion. Versions that are not stored have none.
    form: Option<u64>,
}

impl CustomConversion {
    pub(crate) fn new(served: String, versions: Arc<Versions>, verbatim: bool) -> Self {
        // A number per compiled version, never reused: after an update of the CRD, objects written
        // under its former schema no longer count as complete.
        static FORMS: AtomicU64 = AtomicU64::new(1);
        let form = (served == versions.storage).then(|| FORMS.fetch_add(1, Ordering::Relaxed));
        Self {
            served,
            versions,
            verbatim,
            form,
        }
    }
}

impl Conversion for CustomConversion {
    fn is_identity(&self) -> bool {
        self.verbatim
    }

    fn form(&self) -> Option<u64> {
        self.form
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
        if self.form.is_some()
            && let Some(strategy) = self.versions.find(&self.served)
        {
            // The mark guarantees the defaults, but admission may have removed some of them.
            strategy.default(&mut object);
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
