//! Ownership after a create, an update or a patch other than apply.

use std::borrow::Cow;

use serde_json::Value;

use super::managed::{
    Managed, ManagedFieldsError, is_reset, managed_fields, set_managed_fields, take_managed_fields,
};
use super::request::Request;
use super::tracking::{in_version, record_update};

/// Sets `new.metadata.managedFields` for a write that is not an apply; `live` is `None` for a create.
/// `new` has to be in the version of the request, decoded, defaulted and pruned, and not yet admitted:
/// changes by admission get no owner.
///
/// This never fails. The `managedFields` of `new` decide where to start from:
///
/// * none, or entries that cannot be parsed: the live entries;
/// * `[]` or `[{}]`: none, tracking ends until the next apply. Custom resources lose an empty list when
///   their metadata is decoded, so that only `[{}]` gets here;
/// * anything else: these, so that clients can rewrite ownership; not through subresources.
///
/// If the object does not match its type, tracking ends as it does upstream (`UpdateNoErrors`): the
/// entries are removed.
pub fn update(request: &Request<'_>, live: Option<&Value>, new: &mut Value) {
    let sent = take_managed_fields(new);
    let mut managed = starting_point(request, live, sent.as_ref());
    let exists = live.is_some_and(has_uid);
    if managed.is_empty() && exists {
        // Objects that are not tracked stay so until they are first applied.
        return;
    }
    let old = match live {
        Some(live) => in_version(request, live, request.api_version),
        None => Some(Cow::Owned(request.empty_object())),
    };
    let Some(old) = old else { return };
    if record_update(request, &old, new, &mut managed, request.manager_name()).is_ok() {
        set_managed_fields(new, managed);
    }
}

fn starting_point(request: &Request<'_>, live: Option<&Value>, sent: Option<&Value>) -> Managed {
    let live = || -> Result<Managed, ManagedFieldsError> {
        Managed::decode(live.and_then(managed_fields))
    };
    if !request.subresource.is_empty() {
        return live().unwrap_or_default();
    }
    if is_reset(sent) {
        return Managed::default();
    }
    match Managed::decode(sent) {
        Ok(managed) if !managed.is_empty() => managed,
        _ => live().unwrap_or_default(),
    }
}

/// Only stored objects have a uid.
pub(super) fn has_uid(object: &Value) -> bool {
    let uid = object
        .get("metadata")
        .and_then(|meta| meta.get("uid"))
        .and_then(Value::as_str);
    uid.is_some_and(|uid| !uid.is_empty())
}
