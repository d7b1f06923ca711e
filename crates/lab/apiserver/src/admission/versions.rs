//! The objects of a request in the version that a webhook matches.

use std::sync::Arc;

use serde_json::Value;

use super::attributes::Attributes;
use super::matching::Invocation;
use crate::resource::Resource;

/// New and old object, in one version at a time.
pub(super) struct Versioned<'a> {
    /// The requested resource; `None` for objects that are not stored.
    own: Option<&'a Resource>,
    /// Whether they are objects of the resource, which can then decode them.
    pub(super) whole: bool,
    /// The current version of both, when it is not the requested one.
    current: Option<Arc<Resource>>,
    /// The new object; null for a delete.
    pub(super) object: Value,
    /// The old one; null for a create.
    pub(super) old: Value,
}

impl<'a> Versioned<'a> {
    pub(super) fn new(attributes: &Attributes<'a>, object: &Value, old: Option<&Value>) -> Self {
        Self {
            own: attributes.target.resource,
            whole: attributes.target.whole,
            current: None,
            object: object.clone(),
            old: old.cloned().unwrap_or_default(),
        }
    }

    /// Converts both to the version of an invocation.
    pub(super) fn convert(&mut self, invocation: &Invocation) {
        let Some(own) = self.own else {
            return;
        };
        let wanted = invocation.converted.as_ref();
        let same = match (&self.current, wanted) {
            (None, None) => true,
            (Some(current), Some(wanted)) => Arc::ptr_eq(current, wanted),
            _ => false,
        };
        if same {
            return;
        }
        let from = self.current.as_deref().unwrap_or(own);
        let to = wanted.map_or(own, Arc::as_ref);
        for value in [&mut self.object, &mut self.old] {
            if !value.is_null() {
                let stored = from.conversion.write_stored(std::mem::take(value));
                *value = to.conversion.read_stored(stored);
            }
        }
        self.current = wanted.cloned();
    }

    /// The resource that decodes and defaults objects of the current version.
    pub(super) fn resource(&self) -> Option<&Resource> {
        self.current.as_deref().or(self.own)
    }

    /// The new object in the requested version.
    pub(super) fn into_requested(mut self) -> Value {
        if let (Some(own), Some(current)) = (self.own, self.current.take())
            && !self.object.is_null()
        {
            let stored = current.conversion.write_stored(self.object);
            return own.conversion.read_stored(stored);
        }
        self.object
    }
}
