//! Decoding objects of optional kinds, and writing their statuses.

use kube::Resource;
use kube::api::{DynamicObject, ObjectMeta, Patch, PatchParams};
use kube::core::GroupVersionKind;
use runtime::{Error, Key, OptionalKinds};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

/// Replaces the status of the object that was read with this metadata; fails with a conflict if the object changed
/// since. Returns once the cache shows the write, or at once if the kind is not installed any more.
pub(crate) async fn write(
    foreign: &OptionalKinds,
    kind: &GroupVersionKind,
    of: &ObjectMeta,
    status: &impl Serialize,
    component: &str,
) -> Result<(), Error> {
    let key = Key::of(of);
    let api = foreign.api(kind, of.namespace.as_deref());
    let (Some(api), Some(cache)) = (api, foreign.cache(kind)) else {
        return Ok(());
    };
    let operation = format!("writing the status of {} {key}", kind.kind);
    let patch = json!([
        { "op": "add", "path": "/metadata/resourceVersion", "value": of.resource_version },
        { "op": "add", "path": "/status", "value": status },
    ]);
    let patch = serde_json::from_value(patch)
        .map_err(|error| Error::Invalid(format!("{operation}: {error}")))?;
    let params = PatchParams {
        field_manager: Some(component.to_owned()),
        ..PatchParams::default()
    };
    let written = api
        .patch_status(&key.name, &params, &Patch::Json::<()>(patch))
        .await
        .map_err(Error::api(operation))?;
    cache.saw(&written).await;
    Ok(())
}

/// Decodes a dynamic object.
pub(crate) fn typed<K>(object: &DynamicObject) -> Result<K, Error>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    object.clone().try_parse().map_err(|error| {
        Error::Invalid(format!(
            "reading {} {}: {error}",
            K::kind(&()),
            Key::of(&object.metadata)
        ))
    })
}
