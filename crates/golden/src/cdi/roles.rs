//! The rights that importing takes.

use k8s_openapi::api::rbac::v1::PolicyRule;

const READ: [&str; 3] = ["get", "list", "watch"];

/// What the layer may do in the whole cluster.
pub fn rules() -> Vec<PolicyRule> {
    let write = [&READ[..], &["create", "patch", "delete"]].concat();
    vec![
        rule(
            "cdi.kubevirt.io",
            &["dataimportcrons"],
            &[&READ[..], &["patch"]].concat(),
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
        rule(
            "apiextensions.k8s.io",
            &["customresourcedefinitions"],
            &READ,
        ),
        rule("", &["events"], &["create", "patch"]),
    ]
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(owned(resources)),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}
