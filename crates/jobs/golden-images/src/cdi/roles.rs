//! RBAC rules for imports.

use api::rbac::{READ, and_read, read_crds, read_network, rule, write_events};
use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::layers::Layer;
use crate::roles::mode_rules;

/// The cluster-wide rules of the controller.
pub fn rules() -> Vec<PolicyRule> {
    let write = and_read(&["create", "patch", "delete"]);
    let mut rules = vec![
        rule(
            "cdi.kubevirt.io",
            &["dataimportcrons"],
            &and_read(&["patch"]),
        ),
        rule("cdi.kubevirt.io", &["datasources", "datavolumes"], &write),
        rule("cdi.kubevirt.io", &["datavolumes/status"], &["patch"]),
        // blockOwnerDeletion on a PVC needs it where OwnerReferencesPermissionEnforcement is on.
        rule("cdi.kubevirt.io", &["datavolumes/finalizers"], &["update"]),
        rule("cdi.kubevirt.io", &["storageprofiles", "cdiconfigs"], &READ),
        rule("", &["persistentvolumeclaims", "pods"], &write),
        rule("snapshot.storage.k8s.io", &["volumesnapshots"], &write),
        // A clone from another namespace is created there, and its PersistentVolume is transferred.
        rule(
            "",
            &["persistentvolumes"],
            &[&READ[..], &["patch"]].concat(),
        ),
        rule("storage.k8s.io", &["storageclasses"], &READ),
        rule("", &["nodes"], &READ),
        // Credentials and certificates that sources refer to, read on demand.
        rule("", &["secrets", "configmaps"], &["get"]),
        // Sources that refer to ImageStreams, on OpenShift.
        rule("image.openshift.io", &["imagestreams"], &["get"]),
        // Checks whether a source in another namespace may be cloned.
        rule(
            "authorization.k8s.io",
            &["subjectaccessreviews"],
            &["create"],
        ),
        // The uid of kube-system identifies the cluster.
        rule("", &["namespaces"], &["get"]),
        read_crds(),
        write_events(),
    ];
    rules.extend(mode_rules(Layer::Cdi));
    rules.extend(read_network());
    rules
}
