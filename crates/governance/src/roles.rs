//! Who needs which rights: the operator, the admission check, and the people who use them.
//!
//! The rights of the operator follow from what its profiles declare to use, so that a profile which
//! touches another kind needs no other change, and none keeps rights that nothing needs.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::advisor::{GROUP, PLURAL, WEBHOOK};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::admission::APPROVE_VERB;
use crate::profile::{Access, Profile, Registry};
use crate::remediation;

/// The role of whoever looks on.
pub const VIEWER: &str = "medley-viewer";
/// The role of whoever prepares plans.
pub const EDITOR: &str = "medley-editor";
/// The role of whoever has plans carried out.
pub const APPROVER: &str = "medley-approver";
/// The role, in the namespace of the operator, of whoever reads the history.
pub const HISTORY: &str = "medley-history-viewer";

const READ: [&str; 3] = ["get", "list", "watch"];

/// What the operator may do in the whole cluster.
pub fn operator_rules(registry: &Registry) -> Vec<PolicyRule> {
    let mut rules = vec![
        rule(GROUP, &[PLURAL], &[&READ[..], &["create"]].concat()),
        rule(
            GROUP,
            &[&format!("{PLURAL}/status")],
            &["get", "update", "patch"],
        ),
        rule(
            "apiextensions.k8s.io",
            &["customresourcedefinitions"],
            &READ,
        ),
        rule(
            "admissionregistration.k8s.io",
            &["mutatingwebhookconfigurations"],
            &READ,
        ),
        rule("", &["events"], &["create", "patch"]),
        // To have them pause while nodes restart.
        rule(
            remediation::CHECKS.of.group,
            &[remediation::CHECKS.plural],
            &[&READ[..], &["patch"]].concat(),
        ),
    ];
    rules.extend(target_rules(registry.iter().map(|profile| &**profile)));
    rules
}

/// What the operator may do with the kinds that profiles use: nothing is updated, everything is
/// applied, and only what a profile may have created is deleted.
pub fn target_rules<'a>(profiles: impl IntoIterator<Item = &'a dyn Profile>) -> Vec<PolicyRule> {
    let mut access: BTreeMap<(&str, &str), Access> = BTreeMap::new();
    for uses in profiles.into_iter().flat_map(Profile::uses) {
        let most = access
            .entry((uses.of.group, uses.plural))
            .or_insert(Access::Read);
        if rank(uses.access) > rank(*most) {
            *most = uses.access;
        }
    }
    // Kinds of a group that are used alike share a rule.
    let mut alike: BTreeMap<(&str, u8), (Vec<&str>, Access)> = BTreeMap::new();
    for ((group, plural), access) in access {
        let entry = alike.entry((group, rank(access)));
        let (plurals, _) = entry.or_insert_with(|| (Vec::new(), access));
        plurals.push(plural);
    }
    alike
        .into_iter()
        .map(|((group, _), (plurals, access))| rule(group, &plurals, &verbs(access)))
        .collect()
}

/// What the operator may do in its own namespace.
pub fn operator_namespace_rules() -> Vec<PolicyRule> {
    vec![
        rule(
            "coordination.k8s.io",
            &["leases"],
            &["get", "create", "update", "patch"],
        ),
        rule(
            "apps",
            &["controllerrevisions"],
            &[&READ[..], &["create", "patch", "delete"]].concat(),
        ),
    ]
}

/// What the admission check may do: ask what users may do, and register itself.
pub fn webhook_rules() -> Vec<PolicyRule> {
    let registration = rule(
        "admissionregistration.k8s.io",
        &["mutatingwebhookconfigurations"],
        &["get", "create", "patch"],
    );
    vec![
        rule(
            "authorization.k8s.io",
            &["subjectaccessreviews"],
            &["create"],
        ),
        PolicyRule {
            resource_names: Some(vec![WEBHOOK.to_owned()]),
            ..registration
        },
    ]
}

/// The roles of people, each with what the one before has.
///
/// The viewer is part of the role `view` that every cluster has. Editor and approver are part of
/// nothing: `edit` and `admin` are for what is in a namespace, and a plan may restart every node.
pub fn user_roles() -> [ClusterRole; 3] {
    let may = |verbs: &[&str]| vec![rule(GROUP, &[PLURAL], verbs)];
    let edit = [&READ[..], &["create", "update", "patch", "delete"]].concat();
    let approve = [&edit[..], &[APPROVE_VERB]].concat();
    let mut viewer = cluster_role(VIEWER, may(&READ));
    viewer.metadata.labels = Some(BTreeMap::from([(
        "rbac.authorization.k8s.io/aggregate-to-view".to_owned(),
        "true".to_owned(),
    )]));
    [
        viewer,
        cluster_role(EDITOR, may(&edit)),
        cluster_role(APPROVER, may(&approve)),
    ]
}

/// The right to read the history, which is kept in the namespace of the operator. Elsewhere
/// revisions hold what workloads looked like, and that is nobody's business here.
pub fn history_role(namespace: &str) -> Role {
    Role {
        metadata: ObjectMeta {
            name: Some(HISTORY.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        rules: Some(vec![rule("apps", &["controllerrevisions"], &READ)]),
    }
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

fn rank(access: Access) -> u8 {
    match access {
        Access::Read => 0,
        Access::Apply => 1,
        Access::ApplyAndDelete => 2,
    }
}

fn verbs(access: Access) -> Vec<&'static str> {
    let mut verbs = READ.to_vec();
    if rank(access) >= rank(Access::Apply) {
        verbs.extend(["create", "patch"]);
    }
    if rank(access) >= rank(Access::ApplyAndDelete) {
        verbs.push("delete");
    }
    verbs
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
