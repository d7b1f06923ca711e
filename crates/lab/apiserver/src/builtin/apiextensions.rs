//! The `apiextensions.k8s.io` group: names and tables; CRDs are validated by the `custom` module.

use crate::builtin::entry::Capability::{ConditionalUpdate, Generation, Status};
use crate::builtin::entry::Entry;

/// All kinds of the group.
pub(crate) const ENTRIES: &[Entry] = &[Entry {
    short_names: &["crd", "crds"],
    categories: &["api-extensions"],
    namespaced: false,
    capabilities: &[Generation, Status, ConditionalUpdate],
    status_resets: &["metadata", "spec"],
    ..Entry::new(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    )
}];
