//! RBAC rules for CPU models: of the controller, of the webhook, and of users.

use api::cpu::{GROUP, PLURAL, WEBHOOK};
use api::kubevirt;
use api::rbac::{
    READ, and_read, editor, maintain_webhook, only, read_crds, rule, viewer, write_events,
};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};

/// The ClusterRole for reading policies.
pub const VIEWER: &str = "medley-cpu-viewer";
/// The ClusterRole for editing policies.
pub const EDITOR: &str = "medley-cpu-editor";

const INSTANCES: &str = "virtualmachineinstances";

/// The RBAC rules of the controller.
pub fn operator_rules() -> Vec<PolicyRule> {
    let registration = rule(
        "admissionregistration.k8s.io",
        &["mutatingwebhookconfigurations"],
        &READ,
    );
    let mut rules = watch_rules();
    rules.extend([
        write_events(),
        only(WEBHOOK, registration),
        // Repair: an instance that was admitted without the webhook is patched, which sends it
        // through the webhook again.
        rule(kubevirt::GROUP, &[INSTANCES], &and_read(&["patch"])),
        // Repair: a launcher pod with an unsatisfiable selector is deleted, and KubeVirt creates
        // another.
        rule("", &["pods"], &["list", "watch", "delete"]),
        rule(GROUP, &[&format!("{PLURAL}/status")], &["patch"]),
    ]);
    rules
}

/// The RBAC rules of the webhook.
pub fn webhook_rules() -> Vec<PolicyRule> {
    let mut rules = watch_rules();
    rules.extend([
        maintain_webhook(WEBHOOK),
        rule(kubevirt::GROUP, &[INSTANCES], &["get"]),
        rule("", &["pods"], &["list"]),
    ]);
    rules
}

/// The RBAC rules that both need: what they watch.
fn watch_rules() -> Vec<PolicyRule> {
    vec![
        read_crds(),
        rule("", &["nodes"], &READ),
        rule(kubevirt::GROUP, &["kubevirts"], &READ),
        rule(GROUP, &[PLURAL], &READ),
    ]
}

/// The ClusterRoles of users; the editor's includes the viewer's rules.
pub fn user_roles() -> [ClusterRole; 2] {
    [viewer(VIEWER, GROUP, PLURAL), editor(EDITOR, GROUP, PLURAL)]
}
