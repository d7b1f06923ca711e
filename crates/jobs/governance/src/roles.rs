//! RBAC rules of the operator, the admission webhook and the users.
//!
//! The rules of the operator are derived from the kinds that its profiles declare, so that a profile with another kind
//! needs no other change, and no unused rule remains.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::advisor::{GROUP, PLURAL, WEBHOOK};
use api::rbac::{
    EDIT, READ, and_read, ask_for, cluster_role, editor, maintain_webhook, only, read_crds,
    review_callers, rule, viewer, write_events,
};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::admission::APPROVE_VERB;
use crate::in_flight;
use crate::mutators;
use crate::notifications;
use crate::profile::{Access, KindUse, Profile, Registry};
use crate::prototype;
use crate::recorder::AUTHORITY;
use crate::remediation;

/// ClusterRole of users who read configurations.
pub const VIEWER: &str = "medley-viewer";
/// ClusterRole of users who prepare plans.
pub const EDITOR: &str = "medley-editor";
/// ClusterRole of users who approve plans.
pub const APPROVER: &str = "medley-approver";
/// ClusterRole of users who manage ApprovalPolicies. Neither editors nor approvers have it: they must not be able to
/// lower the requirements that apply to them.
pub const POLICY_ADMIN: &str = "medley-approval-policy-admin";
/// ClusterRole of users who manage PlatformProfiles. None of the roles above includes it: what a profile plans is
/// limited only by the permissions of the operator.
pub const PROFILE_ADMIN: &str = "medley-platform-profile-admin";
/// Role in the operator's namespace of users who read the history.
pub const HISTORY: &str = "medley-history-viewer";

/// ClusterRole for reading metrics of the operator and the webhook.
pub const METRICS_READER: &str = "medley-metrics-reader";

/// Cluster-wide RBAC rules of the operator.
pub fn operator_rules(registry: &Registry) -> Vec<PolicyRule> {
    let mut rules = vec![
        rule(GROUP, &[PLURAL], &and_read(&["create"])),
        rule(
            GROUP,
            &[&format!("{PLURAL}/status")],
            &["get", "update", "patch"],
        ),
        read_crds(),
        only(
            WEBHOOK,
            rule(
                "admissionregistration.k8s.io",
                &["mutatingwebhookconfigurations"],
                &READ,
            ),
        ),
        // What may have changed a target during admission, to name it in a status.
        rule(
            mutators::GROUP,
            &mutators::REGISTRATIONS.map(|(_, plural)| plural),
            &["list"],
        ),
        rule(api::approval::GROUP, &[api::approval::PLURAL], &READ),
        rule(api::profile::GROUP, &[api::profile::PLURAL], &READ),
        rule(
            api::profile::GROUP,
            &[&format!("{}/status", api::profile::PLURAL)],
            &["patch"],
        ),
        // Whether it may do what a PlatformProfile needs.
        rule(
            "authorization.k8s.io",
            &["selfsubjectaccessreviews"],
            &["create"],
        ),
        write_events(),
        // Pauses them while nodes restart.
        rule(
            remediation::CHECKS.of.group,
            &[remediation::CHECKS.plural],
            &and_read(&["patch"]),
        ),
    ];
    rules.extend(in_flight_rules());
    // Clients of the metrics endpoint have to authenticate.
    rules.extend(review_callers());
    rules.extend(prototype::OPERATOR.rules());
    let uses = registry.iter().flat_map(|profile| profile.uses());
    rules.extend(rules_of(uses.chain(&remediation::POOLS)));
    rules
}

/// Group, name of the only object if it is one, and rank of the access.
type Scope<'a> = (&'a str, Option<&'a str>, u8);

/// RBAC rules for the kinds that profiles use: nothing is updated, everything is applied, and only objects that a
/// profile may have created are deleted.
pub fn target_rules<'a>(profiles: impl IntoIterator<Item = &'a dyn Profile>) -> Vec<PolicyRule> {
    rules_of(profiles.into_iter().flat_map(Profile::uses))
}

fn rules_of<'a>(uses: impl Iterator<Item = &'a KindUse>) -> Vec<PolicyRule> {
    let mut access: BTreeMap<(&str, &str, Option<&str>), Access> = BTreeMap::new();
    for uses in uses {
        let most = access
            .entry((uses.of.group, uses.plural, uses.named))
            .or_insert(Access::Read);
        if rank(uses.access) > rank(*most) {
            *most = uses.access;
        }
    }
    // Kinds of a group with the same access share a rule.
    let mut alike: BTreeMap<Scope<'_>, (Vec<&str>, Access)> = BTreeMap::new();
    for ((group, plural, named), access) in access {
        let entry = alike.entry((group, named, rank(access)));
        let (plurals, _) = entry.or_insert_with(|| (Vec::new(), access));
        plurals.push(plural);
    }
    alike
        .into_iter()
        .map(|((group, named, _), (plurals, access))| {
            let rule = rule(group, &plurals, &verbs(access));
            match named {
                Some(name) => only(name, rule),
                None => rule,
            }
        })
        .collect()
}

/// RBAC rules for the ready-made in-flight gates. Other kinds are granted by the administrator who sets the gate.
fn in_flight_rules() -> Vec<PolicyRule> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (group, plural) in in_flight::preset_resources() {
        groups.entry(group).or_default().push(plural);
    }
    let groups = groups.into_iter();
    groups
        .map(|(group, plurals)| rule(group, &plurals, &["list"]))
        .collect()
}

/// RBAC rules of the operator in its own namespace.
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
        // The published CA of the webhook, to compare with its registration.
        only(AUTHORITY, rule("", &["configmaps"], &READ)),
        // URLs and keys of the receivers of notifications, and what was sent to them.
        only(notifications::SECRET, rule("", &["secrets"], &["get"])),
        only(
            notifications::SENT,
            rule("", &["configmaps"], &and_read(&["patch"])),
        ),
        rule("", &["configmaps"], &["create"]),
    ]
}

/// RBAC rules of the webhook: review tokens and access, read profiles, and register itself.
pub fn webhook_rules() -> Vec<PolicyRule> {
    let mut rules = review_callers();
    // The schema of options.
    rules.push(rule(api::profile::GROUP, &[api::profile::PLURAL], &["get"]));
    rules.push(maintain_webhook(WEBHOOK));
    rules
}

/// RBAC rules of the webhook in its own namespace: keeps its CA in a Secret of this name. RBAC cannot restrict `create`
/// by name.
pub fn webhook_namespace_rules(secret: &str) -> Vec<PolicyRule> {
    let kept = PolicyRule {
        resource_names: Some(vec![secret.to_owned()]),
        ..rule("", &["secrets"], &["get", "update"])
    };
    // Published for the operator: the CA certificates without the keys.
    let published = only(AUTHORITY, rule("", &["configmaps"], &["get", "patch"]));
    let create = |resource| rule("", &[resource], &["create"]);
    vec![kept, create("secrets"), published, create("configmaps")]
}

/// The permission to read metrics, for the service account of Prometheus.
pub fn metrics_reader() -> ClusterRole {
    cluster_role(METRICS_READER, vec![ask_for("/metrics", &["get"])])
}

/// The ClusterRoles of users, each including the previous one; and the one for reading metrics, which includes nothing
/// else.
///
/// Editor and approver are not aggregated into the default roles: a plan may restart every node.
pub fn user_roles() -> [ClusterRole; 6] {
    use api::approval;
    let approve = [&EDIT[..], &[APPROVE_VERB]].concat();
    let see_policies = || rule(approval::GROUP, &[approval::PLURAL], &READ);
    let see_profiles = || {
        let resource = api::profile::PLURAL;
        rule(api::profile::GROUP, &[resource], &READ)
    };
    let with_policies = |mut role: ClusterRole| {
        let rules = role.rules.get_or_insert_default();
        rules.extend([see_policies(), see_profiles()]);
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
        editor(PROFILE_ADMIN, api::profile::GROUP, api::profile::PLURAL),
        metrics_reader(),
    ]
}

/// The permission to read the history, and which controllers run, only in the namespace of the operator: ControllerRevisions elsewhere contain the
/// templates of workloads.
pub fn history_role(namespace: &str) -> Role {
    Role {
        metadata: ObjectMeta {
            name: Some(HISTORY.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        rules: Some(vec![
            rule("apps", &["controllerrevisions"], &READ),
            // By which commands tell whether a controller will act on a change.
            only(
                api::published::LEASE,
                rule("coordination.k8s.io", &["leases"], &["get"]),
            ),
        ]),
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
