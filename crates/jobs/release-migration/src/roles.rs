//! Who needs which rights for releases: the controller, and the people who say how releases are judged.

#[cfg(test)]
mod tests;

use api::openshift;
use api::rbac::{READ, and_read, editor, only, rule, see_definitions, tell_events, viewer};
use api::release::{GROUP, PLURAL};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};

/// The role of whoever looks on.
pub const VIEWER: &str = "medley-release-viewer";
/// The role of whoever says how releases are judged.
pub const EDITOR: &str = "medley-release-editor";

/// What the controller may do: look, and tell. It cannot write a ClusterVersion.
pub fn operator_rules() -> Vec<PolicyRule> {
    vec![
        see_definitions(),
        tell_events(),
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
        // Where there is no policy one is made, for the verdict to be seen.
        rule(GROUP, &[PLURAL], &and_read(&["create"])),
        rule(GROUP, &[&format!("{PLURAL}/status")], &["patch"]),
    ]
}

/// What the controller may do in [`openshift::payloads::NAMESPACE`]: read the releases that are kept there as ConfigMaps,
/// under any name. A Role, since ConfigMaps of other namespaces hold the configuration of others.
pub fn payload_rules() -> Vec<PolicyRule> {
    vec![rule("", &["configmaps"], &READ)]
}

/// What it may do besides where it keeps the ClusterVersion: write its status.
pub fn owner_rules() -> Vec<PolicyRule> {
    let status = rule(openshift::GROUP, &["clusterversions/status"], &["patch"]);
    vec![only(openshift::CLUSTER_VERSION, status)]
}

/// The roles of people, the second with what the first has.
pub fn user_roles() -> [ClusterRole; 2] {
    [viewer(VIEWER, GROUP, PLURAL), editor(EDITOR, GROUP, PLURAL)]
}
