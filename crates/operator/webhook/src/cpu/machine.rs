//! Virtual machines and instances at creation: warnings.

use api::kubevirt::VirtualMachineInstanceSpec;
use cpu_models::admission::{unsupported_model, warning};
use serde_json::{Value, json};

use super::CpuModels;
use crate::review::{Refusal, allowed, read_object};

/// Warns if a virtual machine leaves the choice of its model to Medley and none fits, and denies what KubeVirt would
/// deny.
/// `path` is the path of the instance spec.
pub(super) async fn review(
    models: &CpuModels,
    object: &Value,
    path: &str,
) -> Result<Value, Refusal> {
    let spec = object.pointer(path).unwrap_or(&Value::Null);
    if !spec.is_object() {
        return Ok(allowed(Vec::new(), Vec::new()));
    }
    let spec: VirtualMachineInstanceSpec = read_object(spec)?;
    if let Some(message) = unsupported_model(&spec) {
        return Ok(unsupported(path, message));
    }
    let watch = models.watch().await?;
    let warning = warning(&watch.index(), &watch.settings(), spec);
    Ok(allowed(Vec::new(), warning.into_iter().collect()))
}

/// The denial in the shape of KubeVirt's.
fn unsupported(path: &str, message: &str) -> Value {
    let field = format!(
        "{}.domain.cpu.model",
        path.trim_start_matches('/').replace('/', ".")
    );
    json!({
        "allowed": false,
        "status": {
            "code": 422,
            "reason": "Invalid",
            "message": format!("{field}: {message}"),
            "details": { "causes": [
                { "reason": "FieldValueNotSupported", "field": field, "message": message },
            ] },
        },
    })
}
