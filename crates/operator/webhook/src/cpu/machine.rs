//! Virtual machines and instances at creation: warnings.

use api::kubevirt::{VirtualMachineInstance, VirtualMachineInstanceSpec};
use cpu_models::Machine;
use cpu_models::names::BEST_MATCH_MODEL;
use cpu_models::prospects::prospects;
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
    let architecture = spec.architecture.as_deref();
    if architecture == Some("arm64") && spec.model() == Some(BEST_MATCH_MODEL) {
        return Ok(unsupported(path));
    }
    let watch = models.watch().await?;
    let settings = watch.settings();
    if !settings.asks_for_best_match(spec.model(), architecture) {
        return Ok(allowed(Vec::new(), Vec::new()));
    }
    let instance = VirtualMachineInstance {
        spec,
        ..VirtualMachineInstance::default()
    };
    let machine = Machine::of_instance(&instance, &settings.node_selector);
    let prospects = prospects(&watch.index(), &settings.policy, &machine);
    Ok(allowed(
        Vec::new(),
        prospects.warning().into_iter().collect(),
    ))
}

/// KubeVirt's error for arm64, which supports host-passthrough only.
fn unsupported(path: &str) -> Value {
    let field = format!(
        "{}.domain.cpu.model",
        path.trim_start_matches('/').replace('/', ".")
    );
    let message = "currently, host-passthrough is the only model supported on Arm64";
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
