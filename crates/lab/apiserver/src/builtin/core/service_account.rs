//! Service accounts.

use serde_json::Value;

use crate::builtin::entry::Capability::DeleteReturnsObject;
use crate::builtin::entry::{AGE, Entry, NAME};
use crate::builtin::value::{Read, items_mut};

/// The kind.
pub(crate) const ENTRY: Entry = Entry {
    short_names: &["sa"],
    capabilities: &[DeleteReturnsObject],
    prepare_create: |account, _| clean(account),
    prepare_update: |account, _, _, _| clean(account),
    columns: &[NAME, AGE],
    ..Entry::new("", "v1", "ServiceAccount", "serviceaccounts")
};

/// Reduces references to secrets to their name.
fn clean(account: &mut Value) {
    for reference in items_mut(account, "secrets") {
        let name = reference.text("name").to_owned();
        if let Some(fields) = reference.as_object_mut() {
            fields.retain(|key, _| key == "name" && !name.is_empty());
        }
    }
}
