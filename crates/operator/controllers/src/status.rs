//! Statuses of objects of optional kinds.

use kube::api::ObjectMeta;
use kube::core::GroupVersionKind;
use runtime::{Error, OptionalKinds};
use serde::Serialize;

/// Replaces the status of the object that was read with this metadata; fails with a conflict if the object changed
/// since. Writes nothing if the kind is not installed any more.
pub(crate) async fn write(
    foreign: &OptionalKinds,
    kind: &GroupVersionKind,
    of: &ObjectMeta,
    status: &impl Serialize,
    component: &str,
) -> Result<(), Error> {
    if let Some(writer) = foreign.writer(kind, of.namespace.as_deref(), component) {
        writer.replace_status(of, status).await?;
    }
    Ok(())
}
