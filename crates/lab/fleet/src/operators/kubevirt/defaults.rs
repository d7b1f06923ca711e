//! Defaulting and validation of instances, as the webhooks of virt-api do it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::config::Config;
use super::labels::default_machine;

/// The only CPU model supported on arm64, and its default there.
const PASSTHROUGH: &str = "host-passthrough";

/// The user that launchers run as.
const RUNTIME_USER: u32 = 107;

/// Sets the defaults of an instance: architecture, machine type, CPU model, eviction strategy.
pub(super) fn fill(spec: &mut Value, config: &Config) {
    set_if_empty(spec, &["architecture"], config.architecture());
    let arch = spec["architecture"].as_str().unwrap_or_default().to_owned();
    // The cluster-wide model does not apply to arm64: its own default comes first.
    let model = match arch.as_str() {
        "arm64" => PASSTHROUGH,
        _ => config.cpu_model(),
    };
    set_if_empty(spec, &["domain", "cpu", "model"], model);
    set_if_empty(spec, &["domain", "machine", "type"], default_machine(&arch));
    if let (None, Some(strategy)) = (spec.get("evictionStrategy"), config.eviction_strategy()) {
        spec["evictionStrategy"] = json!(strategy);
    }
}

/// Sets a text that is missing or empty.
pub(super) fn set_if_empty(spec: &mut Value, path: &[&str], text: &str) {
    let field = part(spec, path);
    if field.as_str().unwrap_or_default().is_empty() {
        *field = json!(text);
    }
}

/// A part of a value, in objects that are created where there are none.
pub(super) fn part<'a>(value: &'a mut Value, path: &[&str]) -> &'a mut Value {
    let mut part = value;
    for name in path {
        if !part.is_object() {
            *part = json!({});
        }
        part = &mut part[*name];
    }
    part
}

/// Sets the status of an instance that is accepted.
pub(super) fn accept(status: &mut Value, now: &Time) {
    status["runtimeUser"] = json!(RUNTIME_USER);
    status["phase"] = json!("Pending");
    status["phaseTransitionTimestamps"] =
        json!([{ "phase": "Pending", "phaseTransitionTimestamp": now }]);
}

/// Why an instance is not admitted.
pub(super) fn refusal(spec: &Value) -> Option<String> {
    let cpu = &spec["domain"]["cpu"];
    let model = cpu["model"].as_str().unwrap_or_default();
    if spec["architecture"] == "arm64" && model != PASSTHROUGH {
        return Some(format!(
            "spec.domain.cpu.model: Unsupported value: {model:?}: currently, host-passthrough is the only model supported on Arm64"
        ));
    }
    let mut features = cpu["features"].as_array().into_iter().flatten();
    let known = ["", "force", "require", "optional", "disable", "forbid"];
    features.find_map(|feature| {
        let policy = feature["policy"].as_str().unwrap_or_default();
        let name = feature["name"].as_str().unwrap_or_default();
        let text = || format!("CPU feature {name} uses policy {policy} that is not supported.");
        (!known.contains(&policy)).then(text)
    })
}

#[cfg(test)]
mod tests;
