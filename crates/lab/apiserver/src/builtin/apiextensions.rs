//! The `apiextensions.k8s.io` group: names and tables; definitions are checked by whoever serves
//! custom resources.

use crate::builtin::entry::{Entry, Facts, keep_other_part};

/// All kinds of the group.
pub(crate) const ENTRIES: &[Entry] = &[Entry {
    short_names: &["crd", "crds"],
    categories: &["api-extensions"],
    namespaced: false,
    facts: Facts {
        generation: true,
        status: true,
        conditional_update: true,
        ..Facts::NONE
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
