//! RBAC rules for releases: of the controller and of users.

#[cfg(test)]
mod tests;

use api::openshift;
use api::rbac::{
    READ, and_read, editor, only, read_crds, read_network, rule, viewer, write_events,
};
use api::release::{GROUP, PLURAL};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};

use crate::control::OPERATOR;

/// ClusterRole of users who read policies.
pub const VIEWER: &str = "medley-release-viewer";
/// ClusterRole of users who edit policies.
pub const EDITOR: &str = "medley-release-editor";

/// RBAC rules of the controller: reads, events and its own status. It cannot write a ClusterVersion.
pub fn operator_rules() -> Vec<PolicyRule> {
    let mut rules = vec![
        read_crds(),
        write_events(),
        rule(
            openshift::GROUP,
            &["clusterversions", "clusteroperators"],
            &READ,
        ),
        rule(
            "machineconfiguration.openshift.io",
            &["machineconfigpools"],
            &READ,
        ),
        // Creates a policy if there is none, so that its status is visible.
        rule(GROUP, &[PLURAL], &and_read(&["create"])),
        rule(GROUP, &[&format!("{PLURAL}/status")], &["patch"]),
    ];
    // Whether the cluster version operator runs.
    rules.extend(OPERATOR.rules());
    // Releases are images.
    rules.extend(read_network());
    rules
}

/// RBAC rules of the controller in [`openshift::payloads::NAMESPACE`]: reads the releases stored there as ConfigMaps,
/// under any name. A Role, since ConfigMaps of other namespaces hold the configuration of others.
pub fn payload_rules() -> Vec<PolicyRule> {
    vec![rule("", &["configmaps"], &READ)]
}

/// Additional rules where it maintains the ClusterVersion: write its status.
pub fn owner_rules() -> Vec<PolicyRule> {
    let status = rule(openshift::GROUP, &["clusterversions/status"], &["patch"]);
    vec![only(openshift::CLUSTER_VERSION, status)]
}

/// The ClusterRoles of users; the second includes the first.
pub fn user_roles() -> [ClusterRole; 2] {
    [viewer(VIEWER, GROUP, PLURAL), editor(EDITOR, GROUP, PLURAL)]
}
