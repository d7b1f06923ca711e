//! Rights, written the way they are read: who may do what with which kind.
//!
//! What a controller, a check or a person may do is said next to what they do, in the crate of their
//! job; this is the language it is said in.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::api::authorization::v1::ResourceAttributes;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// What it takes to look at a kind and to go on looking.
pub const READ: [&str; 3] = ["get", "list", "watch"];
/// What it takes to keep objects of a kind by hand: all of the above, and every way to write.
pub const EDIT: [&str; 7] = [
    "get", "list", "watch", "create", "update", "patch", "delete",
];

/// These verbs on these resources of a group; the group of the core has no name.
pub fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(owned(resources)),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}

/// These verbs, and those it takes to look.
pub fn and_read<'a>(verbs: &[&'a str]) -> Vec<&'a str> {
    [&READ[..], verbs].concat()
}

/// The same rule, about one object only.
pub fn only(name: &str, rule: PolicyRule) -> PolicyRule {
    PolicyRule {
        resource_names: Some(vec![name.to_owned()]),
        ..rule
    }
}

/// To see which kinds there are, and when others come.
pub fn see_definitions() -> PolicyRule {
    rule(
        "apiextensions.k8s.io",
        &["customresourcedefinitions"],
        &READ,
    )
}

/// To tell what happened, and how often it happened again.
pub fn tell_events() -> PolicyRule {
    rule("", &["events"], &["create", "patch"])
}

/// To find out who somebody is who comes with a token, and whether they may see what they ask for.
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

/// To ask processes, not the API server, for something: what nonResourceURLs are about.
pub fn ask_for(path: &str, verbs: &[&str]) -> PolicyRule {
    PolicyRule {
        non_resource_urls: Some(vec![path.to_owned()]),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}

/// To have the API server ask a check: the registration with this name, and no other.
pub fn register_check(name: &str) -> PolicyRule {
    let registration = rule(
        "admissionregistration.k8s.io",
        &["mutatingwebhookconfigurations"],
        &["get", "create", "patch"],
    );
    only(name, registration)
}

/// A role with a name and rules.
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

/// The role of whoever looks on at a kind. It is part of the role `view` that every cluster has.
pub fn viewer(name: &str, group: &str, plural: &str) -> ClusterRole {
    let mut role = cluster_role(name, vec![rule(group, &[plural], &READ)]);
    role.metadata.labels = Some(BTreeMap::from([(
        "rbac.authorization.k8s.io/aggregate-to-view".to_owned(),
        "true".to_owned(),
    )]));
    role
}

/// The role of whoever keeps objects of a kind. It is part of nothing: `edit` and `admin` are for what
/// is in a namespace, and our kinds are about the whole cluster.
pub fn editor(name: &str, group: &str, plural: &str) -> ClusterRole {
    cluster_role(name, vec![rule(group, &[plural], &EDIT)])
}

/// Everything that rules allow, one question each; in a namespace, or in the whole cluster.
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
                // One of several names will do.
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
