//! The rights that reporting takes.

use api::openshift::GROUP;
use api::rbac::{READ, and_read, rule};
use k8s_openapi::api::rbac::v1::PolicyRule;

/// What whoever reports may do: say what it knows, and see whether its own pods truly run.
pub fn rules() -> Vec<PolicyRule> {
    vec![
        rule(GROUP, &["clusteroperators"], &and_read(&["create"])),
        rule(GROUP, &["clusteroperators/status"], &["update"]),
        rule("apps", &["daemonsets", "deployments"], &READ),
        rule("", &["pods"], &READ),
    ]
}
