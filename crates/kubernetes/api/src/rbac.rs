//! RBAC rules and roles.
//!
//! The permissions of each controller, webhook and user role are defined next to the code that needs
//! them, in the crate of the controller; this module provides the builders.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::api::authorization::v1::ResourceAttributes;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The verbs of a reflector.
pub const READ: [&str; 3] = ["get", "list", "watch"];
/// The verbs to manage objects by hand.
pub const EDIT: [&str; 7] = [
    "get", "list", "watch", "create", "update", "patch", "delete",
];

/// A rule for verbs on resources of a group; the core group is empty.
pub fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(owned(resources)),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}

/// These verbs and those of [`READ`].
pub fn and_read<'a>(verbs: &[&'a str]) -> Vec<&'a str> {
    [&READ[..], verbs].concat()
}

/// Restricts a rule to one object name.
pub fn only(name: &str, rule: PolicyRule) -> PolicyRule {
    PolicyRule {
        resource_names: Some(vec![name.to_owned()]),
        ..rule
    }
}

/// Permission to watch CustomResourceDefinitions.
pub fn read_crds() -> PolicyRule {
    rule(
        "apiextensions.k8s.io",
        &["customresourcedefinitions"],
        &READ,
    )
}

/// Permission to watch how the cluster reaches registries: its proxy, its mirrors and its image settings. These kinds are
/// OpenShift's; elsewhere the rules match nothing.
pub fn read_network() -> [PolicyRule; 2] {
    let settings = [
        "imagedigestmirrorsets",
        "images",
        "imagetagmirrorsets",
        "proxies",
    ];
    [
        rule("config.openshift.io", &settings, &READ),
        rule(
            "operator.openshift.io",
            &["imagecontentsourcepolicies"],
            &READ,
        ),
    ]
}

/// Permission to read the CA certificates of proxies and registries, in [`crate::openshift::CONFIG_NAMESPACE`]. A Role there:
/// the settings name the ConfigMaps, and those of other namespaces hold the configuration of others.
pub fn read_network_authorities() -> Vec<PolicyRule> {
    vec![rule("", &["configmaps"], &["get"])]
}

/// Permission to create and update events.
pub fn write_events() -> PolicyRule {
    // No `update` and no `delete`: a repeated event is patched, and the API server
    // expires events by itself (`--event-ttl`).
    rule("", &["events"], &["create", "patch"])
}

/// Permission to create TokenReviews and SubjectAccessReviews, to authorize requests to own endpoints.
pub fn review_callers() -> Vec<PolicyRule> {
    vec![
        rule("authentication.k8s.io", &["tokenreviews"], &["create"]),
        rule(
            "authorization.k8s.io",
            &["subjectaccessreviews"],
            &["create"],
        ),
    ]
}

/// Permission for a non-resource URL.
pub fn ask_for(path: &str, verbs: &[&str]) -> PolicyRule {
    PolicyRule {
        non_resource_urls: Some(vec![path.to_owned()]),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}

/// Permission to maintain the webhook configurations of this name.
pub fn maintain_webhook(name: &str) -> PolicyRule {
    let registration = rule(
        "admissionregistration.k8s.io",
        &["mutatingwebhookconfigurations"],
        &["get", "create", "patch"],
    );
    // RBAC cannot restrict a POST by name. It can restrict server-side apply, which creates through a PATCH: the API
    // server then authorizes `create` with the name from the URL (`apiserver/pkg/endpoints/handlers/patch.go`).
    only(name, registration)
}

/// A ClusterRole.
pub fn cluster_role(name: &str, rules: Vec<PolicyRule>) -> ClusterRole {
    ClusterRole {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        rules: Some(rules),
        ..ClusterRole::default()
    }
}

/// The viewer role of a kind, aggregated into the built-in role `view`.
pub fn viewer(name: &str, group: &str, plural: &str) -> ClusterRole {
    let mut role = cluster_role(name, vec![rule(group, &[plural], &READ)]);
    role.metadata.labels = Some(BTreeMap::from([(
        "rbac.authorization.k8s.io/aggregate-to-view".to_owned(),
        "true".to_owned(),
    )]));
    role
}

/// The editor role of a kind. It is not aggregated: `edit` and `admin` are for namespaced objects, and
/// Medley's kinds are cluster-scoped.
pub fn editor(name: &str, group: &str, plural: &str) -> ClusterRole {
    cluster_role(name, vec![rule(group, &[plural], &EDIT)])
}

/// All actions that rules allow, one access check each; in a namespace, or in the whole cluster.
pub fn questions<'a>(
    rules: &'a [PolicyRule],
    namespace: Option<&'a str>,
) -> impl Iterator<Item = ResourceAttributes> + 'a {
    rules.iter().flat_map(move |rule| {
        let groups = rule.api_groups.iter().flatten();
        groups.flat_map(move |group| {
            let resources = rule.resources.iter().flatten();
            resources.flat_map(move |resource| {
                let (resource, part) = match resource.split_once('/') {
                    Some((resource, part)) => (resource, Some(part.to_owned())),
                    None => (resource.as_str(), None),
                };
                // One of several names suffices.
                let name = rule.resource_names.as_ref().and_then(|names| names.first());
                rule.verbs.iter().map(move |verb| ResourceAttributes {
                    name: name.cloned(),
                    group: Some(group.clone()),
                    resource: Some(resource.to_owned()),
                    subresource: part.clone(),
                    verb: Some(verb.clone()),
                    namespace: namespace.map(str::to_owned),
                    ..ResourceAttributes::default()
                })
            })
        })
    })
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}
