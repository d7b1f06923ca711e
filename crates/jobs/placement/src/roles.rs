//! RBAC rules for placement: of the controller, of the webhook, and of users.

use api::placement::{GROUP, PLURAL, WEBHOOK};
use api::rbac::{
    READ, and_read, editor, maintain_webhook, only, read_crds, read_network, rule, viewer,
    write_events,
};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};

use crate::liveness::LEASE;
use crate::multiarch;
use crate::ownership;

/// ClusterRole of users who read policies.
pub const VIEWER: &str = "medley-placement-viewer";
/// ClusterRole of users who edit policies.
pub const EDITOR: &str = "medley-placement-editor";

/// RBAC rules of the controller.
pub fn operator_rules() -> Vec<PolicyRule> {
    let mut rules = followed();
    rules.extend([
        write_events(),
        only(WEBHOOK, read_registrations()),
        // Adds node affinity to gated pods and removes the gate.
        rule("", &["pods"], &and_read(&["patch"])),
        rule("", &["pods/status"], &["patch"]),
        rule(GROUP, &[&format!("{PLURAL}/status")], &["patch"]),
    ]);
    // Whether the multiarch-tuning-operator runs.
    rules.extend(ownership::OPERATOR.rules());
    rules
}

/// RBAC rules of the webhook.
pub fn webhook_rules() -> Vec<PolicyRule> {
    let mut rules = followed();
    rules.extend([
        maintain_webhook(WEBHOOK),
        // Releases gated pods while no controller is running. `get` is not needed: they are listed.
        rule("", &["pods"], &["list", "patch"]),
        write_events(),
    ]);
    rules
}

/// RBAC rules of the webhook in the namespace of the operator: the Lease of the controller.
pub fn webhook_namespace_rules() -> Vec<PolicyRule> {
    let lease = rule("coordination.k8s.io", &["leases"], &["get"]);
    vec![only(LEASE, lease)]
}

/// Rules of both where policies inspect images with the pull secrets of pods (`spec.pullSecrets.mode: Pods`): the
/// `imagePullSecrets` of the pod, else those of its service account; read by name in the namespace of the pod, never
/// listed. RBAC cannot express "named by a pod", so the rule covers every Secret: it is a role of its own that an
/// installation can leave out.
pub fn pull_secret_rules() -> Vec<PolicyRule> {
    vec![rule("", &["secrets", "serviceaccounts"], &["get"])]
}

/// Rules of both in a namespace where policies name pull secrets (`spec.pullSecrets.mode: Named`).
pub fn named_secret_rules(names: &[String]) -> Vec<PolicyRule> {
    vec![PolicyRule {
        resource_names: Some(names.to_vec()),
        ..rule("", &["secrets"], &["get"])
    }]
}

/// The resources that both watch.
fn followed() -> Vec<PolicyRule> {
    let mut rules = vec![
        only(multiarch::REGISTRATION, read_registrations()),
        read_crds(),
        rule("", &["nodes", "namespaces"], &READ),
        rule("node.k8s.io", &["runtimeclasses"], &READ),
        rule(GROUP, &[PLURAL], &READ),
    ];
    rules.extend(read_network());
    rules
}

fn read_registrations() -> PolicyRule {
    rule(
        "admissionregistration.k8s.io",
        &["mutatingwebhookconfigurations"],
        &READ,
    )
}

/// The ClusterRoles of users; the second includes the first.
pub fn user_roles() -> [ClusterRole; 2] {
    [viewer(VIEWER, GROUP, PLURAL), editor(EDITOR, GROUP, PLURAL)]
}
