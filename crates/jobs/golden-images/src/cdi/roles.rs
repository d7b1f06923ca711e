//! The rights that importing takes.

use api::rbac::{READ, and_read, rule, see_definitions, tell_events};
use k8s_openapi::api::rbac::v1::PolicyRule;

/// What the layer may do in the whole cluster.
pub fn rules() -> Vec<PolicyRule> {
    let write = and_read(&["create", "patch", "delete"]);
    vec![
        rule(
            "cdi.kubevirt.io",
            &["dataimportcrons"],
            &and_read(&["patch"]),
        ),
        rule("cdi.kubevirt.io", &["datasources", "datavolumes"], &write),
        rule("cdi.kubevirt.io", &["datavolumes/status"], &["patch"]),
        // What the owner of a claim must be allowed to, where owners are checked.
        rule("cdi.kubevirt.io", &["datavolumes/finalizers"], &["update"]),
        rule("cdi.kubevirt.io", &["storageprofiles", "cdiconfigs"], &READ),
        rule("", &["persistentvolumeclaims", "pods"], &write),
        rule("snapshot.storage.k8s.io", &["volumesnapshots"], &write),
        // A copy from another namespace is made there, and its volume is handed over.
        rule(
            "",
            &["persistentvolumes"],
            &[&READ[..], &["patch"]].concat(),
        ),
        rule("storage.k8s.io", &["storageclasses"], &READ),
        rule("", &["nodes"], &READ),
        // Credentials and certificates that images name, when they are needed.
        rule("", &["secrets", "configmaps"], &["get"]),
        // Images that they name by image streams, where the cluster has such.
        rule("image.openshift.io", &["imagestreams"], &["get"]),
        // Whether what is in another namespace may be copied.
        rule(
            "authorization.k8s.io",
            &["subjectaccessreviews"],
            &["create"],
        ),
        // What tells one cluster from another.
        rule("", &["namespaces"], &["get"]),
        rule("medley.dev", &["goldenimagepolicies"], &READ),
        see_definitions(),
        tell_events(),
    ]
}
