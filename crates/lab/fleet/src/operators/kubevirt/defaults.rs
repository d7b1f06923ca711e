//! Defaulting and validation of instances, as KubeVirt's webhooks do it.

use serde_json::{Value, json};

use super::config::Config;

/// The only CPU model supported on arm64, and its default there.
const PASSTHROUGH: &str = "host-passthrough";

/// Sets the defaults of an instance: architecture, CPU model, eviction strategy.
pub(super) fn fill(spec: &mut Value, config: &Config) {
    if !spec.is_object() {
        *spec = json!({});
    }
    if spec["architecture"].as_str().unwrap_or_default().is_empty() {
        spec["architecture"] = json!(config.architecture());
    }
    // The cluster-wide model does not apply to arm64: its own default comes first.
    let model = match spec["architecture"].as_str() {
        Some("arm64") => PASSTHROUGH,
        _ => config.cpu_model(),
    };
    for part in ["/domain", "/domain/cpu"] {
        if spec.pointer(part).is_none_or(|part| !part.is_object()) {
            match part {
                "/domain" => spec["domain"] = json!({}),
                _ => spec["domain"]["cpu"] = json!({}),
            }
        }
    }
    let cpu = &mut spec["domain"]["cpu"];
    if cpu["model"].as_str().unwrap_or_default().is_empty() {
        cpu["model"] = json!(model);
    }
    if let (None, Some(strategy)) = (spec.get("evictionStrategy"), config.eviction_strategy()) {
        spec["evictionStrategy"] = json!(strategy);
    }
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
