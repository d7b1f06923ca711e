//! Ownership through the `scale` subresource.
//!
//! `Scale` is an object of its own with its own `spec.replicas`. A write to it is tracked there,
//! with [`super::update`] or [`super::apply`]; before it the owners of the replicas of the scaled
//! object are translated to owners of `spec.replicas`, after it they are translated back
//! (`apimachinery/pkg/util/managedfields/scalehandler.go`).

use std::collections::BTreeMap;

use serde_json::Value;

use super::managed::{Managed, ManagedFieldsError};
use super::path::PathElement;
use super::set::FieldSet;

/// The version that `Scale` is always served in.
const SCALE_VERSION: &str = "autoscaling/v1";

/// Translates between the owners of a scaled object and those of its `Scale`.
#[derive(Debug, Clone)]
pub struct ScaleHandler {
    parent: Managed,
    api_version: String,
    paths: BTreeMap<String, Option<Vec<PathElement>>>,
}

impl ScaleHandler {
    /// For an object with these `managedFields`, in the version of the request. `paths` is where
    /// each served version has the replicas; `None` for a version that cannot be scaled.
    pub fn new(
        managed_fields: Option<&Value>,
        api_version: &str,
        paths: BTreeMap<String, Option<Vec<PathElement>>>,
    ) -> Result<Self, ManagedFieldsError> {
        let parent = Managed::decode(managed_fields)?;
        Ok(Self {
            parent,
            api_version: api_version.to_owned(),
            paths,
        })
    }

    /// `managedFields` of the `Scale`: the owners of the replicas; `None` if there are none.
    pub fn to_subresource(&self) -> Option<Value> {
        let mut out = Managed::default();
        for entry in &self.parent.entries {
            let Some(Some(path)) = self.paths.get(&entry.api_version) else {
                continue;
            };
            if entry.set.contains(path) {
                let mut entry = entry.clone();
                SCALE_VERSION.clone_into(&mut entry.api_version);
                entry.set = FieldSet::of_paths(&[&["spec", "replicas"]]);
                out.entries.push(entry);
            }
        }
        out.encode()
    }

    /// `managedFields` of the scaled object, after those of its `Scale` have become `scale_fields`. New
    /// entries have no time, and a manager that lost the replicas there loses them here.
    pub fn to_parent(
        &self,
        scale_fields: Option<&Value>,
    ) -> Result<Option<Value>, ManagedFieldsError> {
        let mut scale = Managed::decode(scale_fields)?;
        let mut out = Managed::default();
        for entry in &self.parent.entries {
            // An entry in a version that is not served is dropped, as it would be by any other write.
            let Some(path) = self.paths.get(&entry.api_version) else {
                continue;
            };
            let Some(path) = path.as_ref().filter(|path| entry.set.contains(path)) else {
                out.entries.push(entry.clone());
                continue;
            };
            if let Some(kept) = scale
                .entries
                .iter()
                .position(|there| there.is_of_same(entry))
            {
                scale.entries.remove(kept);
                out.entries.push(entry.clone());
                continue;
            }
            let mut entry = entry.clone();
            let mut lost = FieldSet::default();
            lost.insert(path);
            entry.set.subtract(&lost);
            out.entries.push(entry);
        }
        let in_scale = [PathElement::field("spec"), PathElement::field("replicas")];
        let own_path = self.paths.get(&self.api_version).and_then(Option::as_ref);
        for mut entry in scale.entries {
            if let Some(path) = own_path.filter(|_| entry.set.contains(&in_scale)) {
                entry.set = FieldSet::default();
                entry.set.insert(path);
                entry.api_version.clone_from(&self.api_version);
                // Upstream builds the entry from the `Scale`, which has no time to give
                // (`scalehandler.go`); clients see it without one.
                entry.time = None;
                out.entries.push(entry);
            }
        }
        out.drop_empty();
        Ok(out.encode())
    }
}
