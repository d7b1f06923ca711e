use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::*;
use crate::auth::{MASTERS, Target};
use crate::request::Query;

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
    headers
}

fn list_pods() -> RequestInfo {
    RequestInfo::parse(&Method::GET, "/api/v1/namespaces/d/pods", &Query::default())
}

/// Whether one of the texts, such as `impersonate users bob`, grants it.
fn allowed_by(texts: &[&str], user: &UserInfo, attributes: &Attributes<'_>) -> Decision {
    let asked = match &attributes.target {
        Target::Path(path) => format!("{} {path}", attributes.verb),
        Target::Resource(resource) => {
            let combined = resource.combined();
            format!("{} {combined} {}", attributes.verb, resource.name)
        }
    };
    let asked = asked.trim_end();
    Decision {
        allowed: user.is_in(MASTERS) || texts.contains(&asked),
        reason: String::new(),
    }
}

fn as_admin(pairs: &[(&'static str, &'static str)]) -> Result<UserInfo, Status> {
    let may = |user: &UserInfo, attributes: &Attributes<'_>| allowed_by(&[], user, attributes);
    Impersonation::default().resolve(UserInfo::admin(), &headers(pairs), &list_pods(), &may)
}

/// Eve impersonates users in sequence, with the given permissions.
fn as_eve(
    rights: &[&str],
    attempts: &[&[(&'static str, &'static str)]],
) -> Vec<Result<Vec<String>, String>> {
    let may = |user: &UserInfo, attributes: &Attributes<'_>| allowed_by(rights, user, attributes);
    let impersonation = Impersonation::default();
    let attempt = |pairs: &&[(&'static str, &'static str)]| {
        let eve = UserInfo::known("eve", &[]);
        let became = impersonation.resolve(eve, &headers(pairs), &list_pods(), &may);
        became
            .map(|user| user.groups)
            .map_err(|status| status.message)
    };
    attempts.iter().map(attempt).collect()
}

#[test]
fn without_headers_the_user_is_unchanged() {
    assert_eq!(as_admin(&[]), Ok(UserInfo::admin()));
}

#[test]
fn groups_are_derived_from_names() {
    for (pairs, groups) in [
        (vec![(USER, "alice")], vec!["system:authenticated"]),
        (
            vec![(USER, "alice"), (GROUP, "a"), (GROUP, "b")],
            vec!["a", "b", "system:authenticated"],
        ),
        (
            vec![(USER, "system:serviceaccount:d:sa")],
            vec![
                "system:serviceaccounts",
                "system:serviceaccounts:d",
                "system:authenticated",
            ],
        ),
        (
            vec![(USER, "system:anonymous")],
            vec!["system:unauthenticated"],
        ),
        (
            vec![(USER, "system:node:n1")],
            vec!["system:nodes", "system:authenticated"],
        ),
    ] {
        assert_eq!(as_admin(&pairs).unwrap().groups, groups, "{pairs:?}");
    }
}

#[test]
fn extra_keys_are_unescaped() {
    let user = as_admin(&[(USER, "a"), ("impersonate-extra-x.io%2fscopes", "view")]).unwrap();
    assert_eq!(user.extra["x.io/scopes"], ["view"]);
}

#[test]
fn user_name_is_required() {
    let status = as_admin(&[(GROUP, "devs")]).unwrap_err();
    assert_eq!(status.code, 400);
    assert_eq!(
        status.message,
        "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"devs\"}, \
         Extra:map[string][]string(nil)} without impersonating a user name"
    );
}

#[test]
fn impersonation_without_permission_is_denied() {
    let cases = [
        (
            vec![(USER, "alice")],
            "pods is forbidden: User \"eve\" cannot impersonate-on:user-info:list resource \"pods\" in API group \"\" in the namespace \"d\"",
        ),
        (
            vec![(USER, "system:serviceaccount:d:sa")],
            "pods is forbidden: User \"eve\" cannot impersonate-on:serviceaccount:list resource \"pods\" in API group \"\" in the namespace \"d\"",
        ),
        (
            vec![(USER, "system:serviceaccount:d:sa"), (GROUP, "g")],
            "serviceaccounts \"sa\" is forbidden: User \"eve\" cannot impersonate resource \"serviceaccounts\" in API group \"\" in the namespace \"d\"",
        ),
    ];
    for (pairs, message) in cases {
        assert_eq!(as_eve(&[], &[&pairs]), [Err(message.to_owned())]);
    }
}

#[test]
fn legacy_verb_is_checked_for_each_attribute() {
    let rights = [
        "impersonate users bob",
        "impersonate groups devs",
        "impersonate uids u-1",
        "impersonate userextras/scopes view",
    ];
    let whole = [
        (USER, "bob"),
        (GROUP, "devs"),
        (UID, "u-1"),
        ("impersonate-extra-scopes", "view"),
    ];
    let groups = vec!["devs".to_owned(), "system:authenticated".to_owned()];
    assert_eq!(as_eve(&rights, &[&whole]), [Ok(groups)]);
    // Once the legacy verb has succeeded for a user, denials mention it.
    for (pairs, message) in [
        (
            vec![(USER, "ann")],
            "users \"ann\" is forbidden: User \"eve\" cannot impersonate resource \"users\" in API group \"\"",
        ),
        (
            vec![(USER, "bob"), (GROUP, "ops")],
            "groups \"ops\" is forbidden: User \"eve\" cannot impersonate resource \"groups\" in API group \"\"",
        ),
        (
            vec![(USER, "bob"), (UID, "u-2")],
            "uids.authentication.k8s.io \"u-2\" is forbidden: User \"eve\" cannot impersonate resource \"uids\" in API group \"authentication.k8s.io\"",
        ),
        (
            vec![(USER, "bob"), ("impersonate-extra-scopes", "edit")],
            "userextras.authentication.k8s.io \"edit\" is forbidden: User \"eve\" cannot impersonate resource \"userextras/scopes\" in API group \"authentication.k8s.io\"",
        ),
    ] {
        let outcomes = as_eve(&rights, &[&[(USER, "bob")], &pairs]);
        assert_eq!(
            outcomes[1],
            Err(format!("{message} at the cluster scope")),
            "{pairs:?}"
        );
    }
}

#[test]
fn constrained_verbs_apply_to_user_kind_and_request() {
    let rights = [
        "impersonate-on:user-info:list pods",
        "impersonate:user-info users bob",
    ];
    let outcomes = as_eve(&rights, &[&[(USER, "bob")], &[(USER, "ann")]]);
    assert_eq!(
        outcomes,
        [
            Ok(vec!["system:authenticated".to_owned()]),
            Err(
                "users.authentication.k8s.io \"ann\" is forbidden: User \"eve\" cannot \
                 impersonate:user-info resource \"users\" in API group \"authentication.k8s.io\" \
                 at the cluster scope"
                    .to_owned()
            ),
        ]
    );
    let rights = [
        "impersonate-on:arbitrary-node:list pods",
        "impersonate:arbitrary-node nodes n1",
    ];
    let outcomes = as_eve(&rights, &[&[(USER, "system:node:n1")]]);
    let groups = ["system:nodes", "system:authenticated"].map(str::to_owned);
    assert_eq!(outcomes, [Ok(groups.to_vec())]);
}

#[test]
fn system_masters_require_the_legacy_verb() {
    let pairs = [(USER, "bob"), (GROUP, MASTERS)];
    let new = [
        "impersonate-on:user-info:list pods",
        "impersonate:user-info users bob",
        "impersonate:user-info groups system:masters",
    ];
    assert_eq!(
        as_eve(&new, &[&pairs]),
        [Err(
            "groups.authentication.k8s.io \"system:masters\" is forbidden: User \"eve\" cannot \
              impersonate:user-info resource \"groups\" in API group \"authentication.k8s.io\" at \
              the cluster scope: impersonating the system:masters group is not allowed"
                .to_owned()
        )]
    );
    let old = ["impersonate users bob", "impersonate groups system:masters"];
    assert!(as_eve(&old, &[&pairs])[0].is_ok());
}
