//! Who needs which rights: the operator, the admission check, and the people who use them.
//!
//! The rights of the operator follow from what its profiles declare to use, so that a profile which
//! touches another kind needs no other change, and none keeps rights that nothing needs.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::advisor::{GROUP, PLURAL, WEBHOOK};
use api::rbac::{
    EDIT, READ, and_read, ask_for, cluster_role, editor, only, register_check, review_callers,
    rule, see_definitions, tell_events, viewer,
};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::admission::APPROVE_VERB;
use crate::profile::{Access, Profile, Registry};
use crate::recorder::AUTHORITY;
use crate::remediation;

/// The role of whoever looks on.
pub const VIEWER: &str = "medley-viewer";
/// The role of whoever prepares plans.
pub const EDITOR: &str = "medley-editor";
/// The role of whoever has plans carried out.
pub const APPROVER: &str = "medley-approver";
/// The role of those who set the floor for approvals. Neither editors nor approvers have it: a requirement that those can
/// lower who have to meet it is none.
pub const POLICY_ADMIN: &str = "medley-approval-policy-admin";
/// The role, in the namespace of the operator, of whoever reads the history.
pub const HISTORY: &str = "medley-history-viewer";

/// The role of whoever reads metrics, of the operator and of the check.
pub const METRICS_READER: &str = "medley-metrics-reader";

/// What the operator may do in the whole cluster.
pub fn operator_rules(registry: &Registry) -> Vec<PolicyRule> {
    let mut rules = vec![
        rule(GROUP, &[PLURAL], &and_read(&["create"])),
        rule(
            GROUP,
            &[&format!("{PLURAL}/status")],
            &["get", "update", "patch"],
        ),
        see_definitions(),
        only(
            WEBHOOK,
            rule(
                "admissionregistration.k8s.io",
                &["mutatingwebhookconfigurations"],
                &READ,
            ),
        ),
        rule(api::approval::GROUP, &[api::approval::PLURAL], &READ),
        tell_events(),
        // To have them pause while nodes restart.
        rule(
            remediation::CHECKS.of.group,
            &[remediation::CHECKS.plural],
            &and_read(&["patch"]),
        ),
    ];
    // Whoever wants to see its metrics has to say who they are.
    rules.extend(review_callers());
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
            &and_read(&["create", "patch", "delete"]),
        ),
        // The authority that the webhook published, to compare with its registration.
        only(AUTHORITY, rule("", &["configmaps"], &READ)),
    ]
}

/// What the admission check may do: ask who users are and what they may do, and register itself.
pub fn webhook_rules() -> Vec<PolicyRule> {
    let mut rules = review_callers();
    rules.push(register_check(WEBHOOK));
    rules
}

/// What the admission check may do in its own namespace: keep the authorities of its certificates in a
/// Secret of this name. Creating cannot be limited to a name.
pub fn webhook_namespace_rules(secret: &str) -> Vec<PolicyRule> {
    let kept = PolicyRule {
        resource_names: Some(vec![secret.to_owned()]),
        ..rule("", &["secrets"], &["get", "update"])
    };
    // Published for the operator: whom the API server has to trust, without the keys.
    let published = only(AUTHORITY, rule("", &["configmaps"], &["get", "patch"]));
    let create = |resource| rule("", &[resource], &["create"]);
    vec![kept, create("secrets"), published, create("configmaps")]
}

/// The right to read metrics: for the account of Prometheus.
pub fn metrics_reader() -> ClusterRole {
    cluster_role(METRICS_READER, vec![ask_for("/metrics", &["get"])])
}

/// The roles of people, each with what the one before has; and the role of whoever reads metrics, which
/// has nothing else.
///
/// Like the editor, the approver is part of nothing: a plan may restart every node.
pub fn user_roles() -> [ClusterRole; 5] {
    use api::approval;
    let approve = [&EDIT[..], &[APPROVE_VERB]].concat();
    let see_policies = || rule(approval::GROUP, &[approval::PLURAL], &READ);
    let with_policies = |mut role: ClusterRole| {
        role.rules.get_or_insert_default().push(see_policies());
        role
    };
    [
        with_policies(viewer(VIEWER, GROUP, PLURAL)),
        with_policies(editor(EDITOR, GROUP, PLURAL)),
        with_policies(cluster_role(
            APPROVER,
            vec![rule(GROUP, &[PLURAL], &approve)],
        )),
        editor(POLICY_ADMIN, approval::GROUP, approval::PLURAL),
        metrics_reader(),
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
