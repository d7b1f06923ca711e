//! Rules, subjects and coverage, as Kubernetes documents them.

mod model;

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::auth::UserInfo;

fn rule(text: &str) -> Rule {
    let columns: Vec<Vec<String>> = text
        .split('|')
        .map(|column| {
            let words = column.split_whitespace();
            words
                .map(|word| if word == "core" { "" } else { word }.to_owned())
                .collect()
        })
        .collect();
    let mut rule = Rule {
        verbs: columns[0].clone(),
        ..Rule::default()
    };
    match &columns[1..] {
        [urls] => rule.urls.clone_from(urls),
        [groups, resources, names @ ..] => {
            rule.groups.clone_from(groups);
            rule.resources.clone_from(resources);
            rule.names = names.concat();
        }
        [] => {}
    }
    rule
}

/// `verb group resource[/subresource] [name]`, the namespace being `d`; or `verb /path`.
fn attributes(text: &str) -> Attributes<'_> {
    let words: Vec<&str> = text.split(' ').collect();
    match words.as_slice() {
        [verb, path] => Attributes {
            verb: (*verb).into(),
            target: Target::Path((*path).into()),
        },
        [verb, group, resource, rest @ ..] => {
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            let target = Resource {
                group: if *group == "core" { "" } else { group },
                plural: resource,
                subresource,
                namespace: "d",
                name: rest.first().copied().unwrap_or_default(),
            };
            Attributes::on(*verb, target)
        }
        other => panic!("no attributes: {other:?}"),
    }
}

#[rstest]
// Verbs and groups.
#[case("get list | core | pods", "get core pods", true)]
#[case("get list | core | pods", "watch core pods", false)]
#[case("* | core | pods", "deletecollection core pods", true)]
#[case("get | core | pods", "get apps pods", false)]
#[case("get | * | deployments", "get apps deployments", true)]
// Resources and subresources.
#[case("get | core | pods", "get core pods/log a", false)]
#[case("get | core | pods/log", "get core pods/log a", true)]
#[case("get | core | pods/log", "get core pods a", false)]
#[case("get | core | pods/*", "get core pods/log a", false)]
#[case("update | * | */scale", "update apps deployments/scale a", true)]
#[case("update | * | */scale", "update apps deployments a", false)]
#[case("update | * | */scale", "update apps deployments/rescale a", false)]
#[case("update | core | *", "update core pods/status a", true)]
#[case("get | core | pod", "get core pods", false)]
// Names: neither collections nor creations have one.
#[case("get | core | pods | a b", "get core pods b", true)]
#[case("get | core | pods | a b", "get core pods c", false)]
#[case("* | core | pods | a", "list core pods", false)]
#[case("* | core | pods | a", "create core pods", false)]
#[case("* | core | pods | a", "deletecollection core pods", false)]
#[case("list | core | pods | a", "list core pods a", true)]
// Paths.
#[case("get | /healthz", "get /healthz", true)]
#[case("get | /healthz", "get /healthz/ping", false)]
#[case("get | /healthz", "head /healthz", false)]
#[case("get | /apis/*", "get /apis/apps", true)]
#[case("get | /apis/*", "get /apis", false)]
#[case("get | /api*", "get /apis", true)]
#[case("get | *", "get /", true)]
#[case("get | /a/*/b", "get /a/x/b", false)]
// Resource rules never match paths, nor the reverse.
#[case("* | *", "get core pods", false)]
#[case("* | * | *", "get /healthz", false)]
fn rules_allow_matching_requests(#[case] text: &str, #[case] asked: &str, #[case] allowed: bool) {
    assert_eq!(rule(text).allows(&attributes(asked)), allowed);
}

fn role(kind: &str, namespace: &str, name: &str, rules: &[&str]) -> Value {
    let rules: Vec<Value> = rules.iter().map(|text| rule(text).write()).collect();
    json!({"kind": kind, "metadata": {"name": name, "namespace": namespace}, "rules": rules})
}

fn binding(namespace: &str, name: &str, role: &str, subjects: &Value) -> Value {
    let (kind, role) = role.split_once(' ').unwrap();
    json!({
        "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"kind": kind, "name": role},
        "subjects": subjects,
    })
}

fn policy() -> Policy {
    let mut policy = Policy::default();
    policy.put(
        Kind::ClusterRole,
        &role("ClusterRole", "", "read", &["get | core | pods"]),
    );
    policy.put(
        Kind::Role,
        &role("Role", "d", "write", &["create | core | pods"]),
    );
    let devs = json!([{"kind": "User", "name": "ann"}, {"kind": "Group", "name": "devs"}]);
    policy.put(
        Kind::ClusterRoleBinding,
        &binding("", "readers", "ClusterRole read", &devs),
    );
    let robot = json!([{"kind": "ServiceAccount", "name": "robot"}]);
    policy.put(
        Kind::RoleBinding,
        &binding("d", "robots", "Role write", &robot),
    );
    let far = json!([{"kind": "ServiceAccount", "name": "robot", "namespace": "far"}]);
    policy.put(
        Kind::RoleBinding,
        &binding("d", "far", "ClusterRole read", &far),
    );
    policy
}

#[rstest]
#[case("ann", &[], "get core pods", "ClusterRoleBinding \"readers\" of ClusterRole \"read\" to User \"ann\"")]
#[case("bob", &["devs"], "get core pods", "ClusterRoleBinding \"readers\" of ClusterRole \"read\" to Group \"devs\"")]
#[case("system:serviceaccount:d:robot", &[], "create core pods", "RoleBinding \"robots/d\" of Role \"write\" to ServiceAccount \"robot/d\"")]
#[case("system:serviceaccount:far:robot", &[], "get core pods", "RoleBinding \"far/d\" of ClusterRole \"read\" to ServiceAccount \"robot/far\"")]
#[case("bob", &[], "get core pods", "")]
#[case("devs", &["ann"], "get core pods", "")]
#[case("system:serviceaccount:far:robot", &[], "create core pods", "")]
#[case("ann", &[], "get /healthz", "")]
fn bindings_grant_roles_to_subjects(
    #[case] name: &str,
    #[case] groups: &[&str],
    #[case] asked: &str,
    #[case] by: &str,
) {
    let decision = policy().decide(&UserInfo::known(name, groups), &attributes(asked));
    let reason = if by.is_empty() {
        String::new()
    } else {
        format!("RBAC: allowed by {by}")
    };
    assert_eq!(
        (decision.allowed, decision.reason),
        (!by.is_empty(), reason)
    );
}

#[test]
fn role_bindings_apply_to_their_namespace_only() {
    let robot = UserInfo::known("system:serviceaccount:d:robot", &[]);
    for (namespace, allowed) in [("d", true), ("other", false), ("", false)] {
        let target = Resource {
            plural: "pods",
            namespace,
            ..Resource::default()
        };
        let decision = policy().decide(&robot, &Attributes::on("create", target));
        assert_eq!(decision.allowed, allowed, "{namespace:?}");
    }
}

#[test]
fn missing_roles_are_named_unless_another_role_allows_it() {
    let mut policy = policy();
    let ann = json!([{"kind": "User", "name": "ann"}]);
    policy.put(
        Kind::ClusterRoleBinding,
        &binding("", "a", "ClusterRole gone", &ann),
    );
    policy.put(Kind::RoleBinding, &binding("d", "b", "Role lost", &ann));
    policy.put(Kind::RoleBinding, &binding("d", "c", "Role lost", &ann));
    let ann = UserInfo::known("ann", &[]);
    let decision = policy.decide(&ann, &attributes("create core pods"));
    assert_eq!(
        decision.reason,
        "RBAC: [clusterrole.rbac.authorization.k8s.io \"gone\" not found, role.rbac.authorization.k8s.io \"lost\" not found]"
    );
    assert!(policy.decide(&ann, &attributes("get core pods")).allowed);
}

#[test]
fn deleted_and_changed_objects_lose_effect() {
    let (ann, bob) = (
        UserInfo::known("ann", &[]),
        UserInfo::known("bob", &["devs"]),
    );
    let get = attributes("get core pods");
    let mut policy = policy();
    let readers = binding(
        "",
        "readers",
        "ClusterRole read",
        &json!([{"kind": "User", "name": "ann"}]),
    );
    policy.put(Kind::ClusterRoleBinding, &readers);
    assert!(policy.decide(&ann, &get).allowed);
    assert!(
        !policy.decide(&bob, &get).allowed,
        "no longer among the subjects"
    );
    policy.put(
        Kind::ClusterRole,
        &role("ClusterRole", "", "read", &["list | core | pods"]),
    );
    assert!(!policy.decide(&ann, &get).allowed, "no longer in the role");
    policy.put(
        Kind::ClusterRole,
        &role("ClusterRole", "", "read", &["get | core | pods"]),
    );
    policy.remove(Kind::ClusterRoleBinding, &readers);
    assert!(!policy.decide(&ann, &get).allowed, "no longer bound");
}

#[rstest]
#[case(&["* | * | *"], &["get | core | pods", "create | apps | deployments/scale | x"], "")]
#[case(&["get | core | pods"], &["get list | core | pods"], "{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"list\"]}")]
// No single rule has both, but each part is in one.
#[case(&["get | core | pods", "list | core | pods"], &["get list | core | pods"], "")]
#[case(&["get | core | pods | a"], &["get | core | pods"], "{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\"]}")]
#[case(&["get | core | pods"], &["get | core | pods | a"], "")]
#[case(&["get | core | pods | a"], &["get list | core | pods | a b"], "{APIGroups:[\"\"], Resources:[\"pods\"], ResourceNames:[\"a\"], Verbs:[\"list\"]}\n{APIGroups:[\"\"], Resources:[\"pods\"], ResourceNames:[\"b\"], Verbs:[\"get\" \"list\"]}")]
#[case(&["update | apps | */scale"], &["update | apps | deployments/scale"], "")]
#[case(&["update | apps | deployments/*"], &["update | apps | deployments/scale"], "{APIGroups:[\"apps\"], Resources:[\"deployments/scale\"], Verbs:[\"update\"]}")]
#[case(&["get | /api/*"], &["get | /api/v1 /api/*"], "")]
#[case(&["get | /api/*"], &["get post | /api/v1 /metrics"], "{NonResourceURLs:[\"/api/v1\"], Verbs:[\"post\"]}\n{NonResourceURLs:[\"/metrics\"], Verbs:[\"get\"]}\n{NonResourceURLs:[\"/metrics\"], Verbs:[\"post\"]}")]
#[case(&["get | core | *"], &["* | core | pods"], "{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"*\"]}")]
fn uncovered_rules_are_reported(
    #[case] held: &[&str],
    #[case] wanted: &[&str],
    #[case] lacking: &str,
) {
    let read = |texts: &[&str]| texts.iter().map(|text| rule(text)).collect::<Vec<_>>();
    let parts = uncovered(&read(held), &read(wanted));
    assert_eq!(describe(&compact(&parts)), lacking);
}
