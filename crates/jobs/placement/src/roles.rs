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

/// What both may read where policies inspect images with the pull secrets of pods (`spec.pullSecrets.mode: Pods`): the
/// `imagePullSecrets` of a pod that is being decided on, else those of its service account. By name, in the namespace of the
/// pod, and never listed. RBAC cannot say "named by a pod", so that the rule covers every Secret: it is a role of its own
/// that an installation can leave out.
pub fn pull_secret_rules() -> Vec<PolicyRule> {
    vec![rule("", &["secrets", "serviceaccounts"], &["get"])]
}

/// What both may read in a namespace where policies name pull secrets (`spec.pullSecrets.mode: Named`).
pub fn named_secret_rules(names: &[String]) -> Vec<PolicyRule> {
    vec![PolicyRule {
        resource_names: Some(names.to_vec()),
        ..rule("", &["secrets"], &["get"])
    }]
}

/// What both look at.
fn followed() -> Vec<PolicyRule> {
    vec![
        see_definitions(),
        rule("", &["nodes", "namespaces"], &READ),
        rule("node.k8s.io", &["runtimeclasses"], &READ),
        rule(GROUP, &[PLURAL], &READ),
    ]
}

/// The roles of people, the second with what the first has.
pub fn user_roles() -> [ClusterRole; 2] {
    [viewer(VIEWER, GROUP, PLURAL), editor(EDITOR, GROUP, PLURAL)]
}
