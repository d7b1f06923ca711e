//! Taints of nodes and what tolerates them.

use serde_json::Value;

use crate::selector::text_at;

/// Whether any of `tolerations` tolerates `taint`.
pub fn tolerates(tolerations: &[Value], taint: &Value) -> bool {
    tolerations
        .iter()
        .any(|toleration| tolerates_one(toleration, taint))
}

/// The first taint with one of `effects` that no toleration covers; no effects mean every effect.
pub fn untolerated_taint<'a>(
    taints: &'a [Value],
    tolerations: &[Value],
    effects: &[&str],
) -> Option<&'a Value> {
    taints
        .iter()
        .filter(|taint| effects.is_empty() || effects.contains(&text_at(taint, "effect")))
        .find(|taint| !tolerates(tolerations, taint))
}

/// An empty effect or key stands for all of them, an empty operator for `Equal`. The comparing
/// operators `Lt` and `Gt` are an alpha feature that is off, so they tolerate nothing.
fn tolerates_one(toleration: &Value, taint: &Value) -> bool {
    let covers = |name: &str| {
        let wanted = text_at(toleration, name);
        wanted.is_empty() || wanted == text_at(taint, name)
    };
    if !covers("effect") || !covers("key") {
        return false;
    }
    match text_at(toleration, "operator") {
        "" | "Equal" => text_at(toleration, "value") == text_at(taint, "value"),
        "Exists" => true,
        _ => false,
    }
}
