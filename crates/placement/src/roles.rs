//! Who needs which rights for placement: the controller, the check, and the people who say how pods are
//! placed.

use api::placement::{GROUP, PLURAL, WEBHOOK};
use api::rbac::{
    READ, and_read, editor, only, register_check, rule, see_definitions, tell_events, viewer,
};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};

/// The role of whoever looks on.
pub const VIEWER: &str = "medley-placement-viewer";
/// The role of whoever says how pods are placed.
pub const EDITOR: &str = "medley-placement-editor";

/// What the controller may do.
pub fn operator_rules() -> Vec<PolicyRule> {
    let registration = rule(
        "admissionregistration.k8s.io",
        &["mutatingwebhookconfigurations"],
        &READ,
    );
    let mut rules = followed();
    rules.extend([
        tell_events(),
        only(WEBHOOK, registration),
        // Pods at the gate are told where to go, and let go.
        rule("", &["pods"], &and_read(&["patch"])),
        rule("", &["pods/status"], &["patch"]),
        rule(GROUP, &[&format!("{PLURAL}/status")], &["patch"]),
    ]);
    rules
}

/// What the check may do.
pub fn webhook_rules() -> Vec<PolicyRule> {
    let mut rules = followed();
    rules.push(register_check(WEBHOOK));
    rules
}

/// What both look at. Pull secrets are read by the names that pods give, and never listed.
fn followed() -> Vec<PolicyRule> {
    vec![
        see_definitions(),
        rule("", &["nodes", "namespaces"], &READ),
        rule("", &["secrets", "serviceaccounts"], &["get"]),
        rule("node.k8s.io", &["runtimeclasses"], &READ),
        rule(GROUP, &[PLURAL], &READ),
    ]
}

/// The roles of people, the second with what the first has.
pub fn user_roles() -> [ClusterRole; 2] {
    [viewer(VIEWER, GROUP, PLURAL), editor(EDITOR, GROUP, PLURAL)]
}
