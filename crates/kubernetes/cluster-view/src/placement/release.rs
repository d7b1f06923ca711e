//! Release of a gated pod: the write that the controller, the webhook and the command line share.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use placement::{Notice, changes, release_without_affinity};
use runtime::{Error, Kind, Writer};
use serde_json::Value;
use tracing::warn;

/// Writes the release of a pod that was read with this metadata; without node affinity if the API server rejects that.
/// Returns the event about it. A conflict if the pod has changed.
pub async fn write_release<C: Kind>(
    writer: &Writer<Pod, C>,
    read: &ObjectMeta,
    before: &Value,
    after: &Value,
    notice: Notice,
) -> Result<Notice, Error> {
    match write_changes(writer, read, before, after).await {
        // The pod had affinity of its own that we may not extend (existing terms must stay a prefix,
        // `ValidatePodUpdate` in `pkg/apis/core/validation/validation.go`). Without release it would be gated for ever.
        Err(error) if error.code() == Some(422) => {
            warn!(%error, "cannot set node affinity; releasing the pod without it");
            let (after, notice) = release_without_affinity(before, &error.to_string());
            write_changes(writer, read, before, &after).await?;
            Ok(notice)
        }
        written => written.map(|()| notice),
    }
}

/// Writes the changes of a gated pod that was read with this metadata. A conflict if it has changed.
pub async fn write_changes<C: Kind>(
    writer: &Writer<Pod, C>,
    read: &ObjectMeta,
    before: &Value,
    after: &Value,
) -> Result<(), Error> {
    let patch = changes(before, after);
    if !patch.is_empty() {
        writer.json_patch(read, patch).await?;
    }
    Ok(())
}
