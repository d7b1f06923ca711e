//! RBAC rules for managing RuntimeClasses.

use api::rbac::{and_read, rule, write_events};
use k8s_openapi::api::rbac::v1::PolicyRule;

/// RBAC rules of the controller.
pub fn operator_rules() -> Vec<PolicyRule> {
    vec![
        // Sets the Windows build label on nodes whose kubelet did not.
        rule("", &["nodes"], &and_read(&["patch"])),
        rule(
            "node.k8s.io",
            &["runtimeclasses"],
            &and_read(&["create", "patch", "delete"]),
        ),
        // A class is deleted only when no pod uses it.
        rule("", &["pods"], &["list"]),
        write_events(),
    ]
}
