//! Who needs which rights for CPU models: the controller, the check, and the people who say how models
//! are chosen.

use api::cpu::{GROUP, PLURAL, WEBHOOK};
use api::kubevirt;
use api::rbac::{
    READ, and_read, editor, only, register_check, rule, see_definitions, tell_events, viewer,
};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};

/// The role of whoever looks on.
pub const VIEWER: &str = "medley-cpu-viewer";
/// The role of whoever says how models are chosen.
pub const EDITOR: &str = "medley-cpu-editor";

const INSTANCES: &str = "virtualmachineinstances";

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
        // An instance that was handed over while nobody checked is written once more, to be checked.
        rule(kubevirt::GROUP, &[INSTANCES], &and_read(&["patch"])),
        // A launcher that no node can run goes, for another one to come.
        rule("", &["pods"], &["list", "watch", "delete"]),
        rule(GROUP, &[&format!("{PLURAL}/status")], &["patch"]),
    ]);
    rules
}

/// What the check may do.
pub fn webhook_rules() -> Vec<PolicyRule> {
    let mut rules = followed();
    rules.extend([
        register_check(WEBHOOK),
        rule(kubevirt::GROUP, &[INSTANCES], &["get"]),
        rule("", &["pods"], &["list"]),
    ]);
    rules
}

/// What both look at.
fn followed() -> Vec<PolicyRule> {
    vec![
        see_definitions(),
        rule("", &["nodes"], &READ),
        rule(kubevirt::GROUP, &["kubevirts"], &READ),
        rule(GROUP, &[PLURAL], &READ),
    ]
}

/// The roles of people, the second with what the first has.
pub fn user_roles() -> [ClusterRole; 2] {
    [viewer(VIEWER, GROUP, PLURAL), editor(EDITOR, GROUP, PLURAL)]
}
