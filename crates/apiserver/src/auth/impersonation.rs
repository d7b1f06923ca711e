//! Acting as somebody else (`Impersonate-*` headers).

#[cfg(test)]
mod tests;

use http::HeaderMap;
use machinery::json::go_quote;
use machinery::names;
use machinery::status::Status;
use percent_encoding::percent_decode_str;

use super::{ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED, UserInfo, forbidden_to};
use crate::request::{RequestInfo, ResourcePath};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

/// The user a request is made as: the one asking, or whom they ask to be.
///
/// Only `system:masters` may be anyone: there are no rules yet that could let others.
pub(crate) fn impersonate(
    asking: UserInfo,
    headers: &HeaderMap,
    info: &RequestInfo,
) -> Result<UserInfo, Status> {
    let Some(wanted) = wanted(headers)? else {
        return Ok(asking);
    };
    if asking.is_in(MASTERS) {
        Ok(completed(wanted))
    } else {
        Err(refused(&asking, &wanted, info))
    }
}

/// What the headers say, and nothing else.
fn wanted(headers: &HeaderMap) -> Result<Option<UserInfo>, Status> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let first = |name: &str| headers.get(name).map(text).unwrap_or_default();
    let mut user = UserInfo {
        name: first(USER),
        uid: first(UID),
        groups: headers.get_all(GROUP).iter().map(text).collect(),
        ..UserInfo::default()
    };
    // Names of headers are lower case already, as keys of extra values have to be.
    for (name, value) in headers {
        let Some(key) = name.as_str().strip_prefix(EXTRA) else {
            continue;
        };
        let key = percent_decode_str(key)
            .decode_utf8()
            .map_or_else(|_| key.to_owned(), std::borrow::Cow::into_owned);
        user.extra.entry(key).or_default().push(text(value));
    }
    if !user.name.is_empty() {
        return Ok(Some(user));
    }
    if only_name(&user) {
        return Ok(None);
    }
    Err(Status::bad_request(format!(
        "requested {} without impersonating a user name",
        go_syntax(&user)
    )))
}

fn only_name(user: &UserInfo) -> bool {
    user.uid.is_empty() && user.groups.is_empty() && user.extra.is_empty()
}

/// The groups that follow from who somebody is.
fn completed(mut user: UserInfo) -> UserInfo {
    if node(&user.name).is_some() && only_name(&user) {
        user.groups.push("system:nodes".to_owned());
    }
    if let Some((namespace, _)) = service_account(&user.name)
        && user.groups.is_empty()
    {
        user.groups.push("system:serviceaccounts".to_owned());
        user.groups
            .push(format!("system:serviceaccounts:{namespace}"));
    }
    let known = user.name != ANONYMOUS && !user.is_in(UNAUTHENTICATED);
    let group = if known {
        AUTHENTICATED
    } else {
        UNAUTHENTICATED
    };
    if !user.is_in(group) {
        user.groups.push(group.to_owned());
    }
    user
}

/// The 403: it names the first of upstream's modes of impersonation that would have been for this.
fn refused(asking: &UserInfo, wanted: &UserInfo, info: &RequestInfo) -> Status {
    let name = wanted.name.as_str();
    let (node, account) = (node(name), service_account(name));
    let mode = match (node, account) {
        (None, None) => "user-info",
        (Some(_), _) if only_name(wanted) => "arbitrary-node",
        (_, Some(_)) if only_name(wanted) => "serviceaccount",
        // More than a name of a node or a service account is for the oldest mode alone.
        (_, account) => {
            let (namespace, resource, name) = match account {
                Some((namespace, name)) => (namespace, "serviceaccounts", name),
                None => ("", "users", name),
            };
            let path = ResourcePath {
                group: String::new(),
                version: "v1".to_owned(),
                namespace: namespace.to_owned(),
                resource: resource.to_owned(),
                name: name.to_owned(),
                subresource: String::new(),
                rest: Vec::new(),
            };
            let info = RequestInfo {
                resource: Some(path),
                ..info.clone()
            };
            return forbidden_to(asking, "impersonate", &info);
        }
    };
    let verb = format!("impersonate-on:{mode}:{}", info.verb.as_str());
    forbidden_to(asking, &verb, info)
}

fn node(name: &str) -> Option<&str> {
    name.strip_prefix("system:node:")
        .filter(|name| names::name_is_dns_subdomain(name, false).is_empty())
}

/// Namespace and name of a service account (`serviceaccount.SplitUsername`).
fn service_account(name: &str) -> Option<(&str, &str)> {
    let (namespace, name) = name
        .strip_prefix("system:serviceaccount:")?
        .split_once(':')?;
    let valid = names::name_is_dns_label(namespace, false).is_empty()
        && names::name_is_dns_subdomain(name, false).is_empty();
    valid.then_some((namespace, name))
}

/// A user as Go's `%#v` shows it.
fn go_syntax(user: &UserInfo) -> String {
    let texts = |texts: &[String]| {
        let quoted: Vec<String> = texts.iter().map(|text| go_quote(text)).collect();
        format!("[]string{{{}}}", quoted.join(", "))
    };
    let groups = if user.groups.is_empty() {
        "[]string(nil)".to_owned()
    } else {
        texts(&user.groups)
    };
    let extra = if user.extra.is_empty() {
        "(nil)".to_owned()
    } else {
        let entries: Vec<String> = user
            .extra
            .iter()
            .map(|(key, values)| format!("{}:{}", go_quote(key), texts(values)))
            .collect();
        format!("{{{}}}", entries.join(", "))
    };
    format!(
        "&user.DefaultInfo{{Name:{}, UID:{}, Groups:{groups}, Extra:map[string][]string{extra}}}",
        go_quote(&user.name),
        go_quote(&user.uid)
    )
}
