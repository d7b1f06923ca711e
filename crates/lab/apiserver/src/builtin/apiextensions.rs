//! The `apiextensions.k8s.io` group: names and tables; CRDs are validated by the `custom` module.

use crate::builtin::entry::{Capabilities, Entry, keep_other_part};

/// All kinds of the group.
pub(crate) const ENTRIES: &[Entry] = &[Entry {
    short_names: &["crd", "crds"],
    categories: &["api-extensions"],
    namespaced: false,
    capabilities: Capabilities {
        generation: true,
        status: true,
        conditional_update: true,
        ..Capabilities::NONE
    },
    prepare_update: keep_other_part,
    status_resets: &["metadata", "spec"],
    ..Entry::new(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        "customresourcedefinition",
    )
}];
