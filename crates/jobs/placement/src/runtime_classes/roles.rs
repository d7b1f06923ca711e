//! What it takes to keep RuntimeClasses.

use api::rbac::{and_read, rule, tell_events};
use k8s_openapi::api::rbac::v1::PolicyRule;

/// What the controller may do.
pub fn operator_rules() -> Vec<PolicyRule> {
    vec![
        // A node whose kubelet did not say its build is labelled with it.
        rule("", &["nodes"], &and_read(&["patch"])),
        rule(
            "node.k8s.io",
            &["runtimeclasses"],
            &and_read(&["create", "patch", "delete"]),
        ),
        // A class goes only when no pod uses it.
        rule("", &["pods"], &["list"]),
        tell_events(),
    ]
}
