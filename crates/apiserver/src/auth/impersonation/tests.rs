use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::*;
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

fn as_admin(pairs: &[(&'static str, &'static str)]) -> Result<UserInfo, Status> {
    impersonate(UserInfo::admin(), &headers(pairs), &list_pods())
}

#[test]
fn without_headers_nothing_changes() {
    assert_eq!(as_admin(&[]), Ok(UserInfo::admin()));
}

#[test]
fn groups_follow_from_names() {
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
fn a_name_is_needed() {
    let status = as_admin(&[(GROUP, "devs")]).unwrap_err();
    assert_eq!(status.code, 400);
    assert_eq!(
        status.message,
        "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"devs\"}, \
         Extra:map[string][]string(nil)} without impersonating a user name"
    );
}

#[test]
fn others_may_not() {
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
        let eve = UserInfo::known("eve", &[]);
        let status = impersonate(eve, &headers(&pairs), &list_pods()).unwrap_err();
        assert_eq!((status.code, status.message.as_str()), (403, message));
    }
}
