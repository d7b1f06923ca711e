//! Impersonation (`Impersonate-*` headers).

mod modes;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use http::HeaderMap;
use machinery::json::go_quote;
use machinery::status::Status;
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;

use self::modes::{MODES, Mode};
use super::UserInfo;
use super::attributes::Attributes;
use super::rbac::Decision;
use crate::request::RequestInfo;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";
/// Number of users whose mode is cached, as upstream.
const MODE_CACHE_SIZE: usize = 10_000;

/// Checks a permission of a user.
pub(crate) type May<'a> = dyn Fn(&UserInfo, &Attributes<'_>) -> Decision + 'a;

/// Impersonation of users, as RBAC rules allow it.
///
/// There are several modes, from the narrowest to the legacy one. The mode that last succeeded for
/// a user is tried first, which determines the message of a denial.
#[derive(Default)]
pub(crate) struct Impersonation {
    last: Mutex<HashMap<String, Mode>>,
}

impl Impersonation {
    /// The effective user of a request: the authenticated or the impersonated one.
    pub(crate) fn resolve(
        &self,
        asking: UserInfo,
        headers: &HeaderMap,
        info: &RequestInfo,
        may: &May<'_>,
    ) -> Result<UserInfo, Status> {
        let Some(wanted) = wanted(headers)? else {
            return Ok(asking);
        };
        let attributes = Attributes::from(info);
        let last = self.last.lock().get(&asking.name).copied();
        let others = MODES.into_iter().filter(|mode| Some(*mode) != last);
        let mut refusal = None;
        for mode in last.into_iter().chain(others) {
            match mode.check(&asking, &wanted, &attributes, may) {
                Ok(Some(user)) => {
                    self.remember(asking.name, mode);
                    return Ok(user);
                }
                Ok(None) => {}
                // The first refusal is the answer, that is the one of the mode which last worked
                // for this user.
                Err(status) => refusal = refusal.or(Some(status)),
            }
        }
        Err(refusal.unwrap_or_else(|| Status::plain_500("all impersonation modes failed")))
    }

    fn remember(&self, name: String, mode: Mode) {
        let mut last = self.last.lock();
        if last.len() >= MODE_CACHE_SIZE && !last.contains_key(&name) {
            // Upstream evicts the least recently used; a lost entry only costs a few checks of
            // other modes.
            last.clear();
        }
        last.insert(name, mode);
    }
}

/// The user in the headers.
fn wanted(headers: &HeaderMap) -> Result<Option<UserInfo>, Status> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let first = |name: &str| headers.get(name).map(text).unwrap_or_default();
    let mut user = UserInfo {
        name: first(USER),
        uid: first(UID),
        groups: headers.get_all(GROUP).iter().map(text).collect(),
        ..UserInfo::default()
    };
    // Header names are lower case already, as keys of extra values have to be.
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

/// A user in Go's `%#v` format.
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
