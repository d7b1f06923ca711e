//! Who is asking, and whether they may.

use std::collections::BTreeMap;

use machinery::gvk::GroupResource;
use machinery::json::go_quote;
use machinery::status::Status;

use crate::request::RequestInfo;

mod authenticator;
mod impersonation;
mod service_account;
mod token_file;

pub use authenticator::{Authenticator, PeerCertificate};
pub(crate) use impersonation::impersonate;
pub use service_account::{SigningKey, TokenClaims};
pub use token_file::{StaticTokens, TokenFileError};

/// The group whose members may do everything.
pub const MASTERS: &str = "system:masters";
/// The group of everyone who is known.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of everyone else.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The user nobody is.
pub const ANONYMOUS: &str = "system:anonymous";

/// A user.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UserInfo {
    /// Name.
    pub name: String,
    /// Identity that outlives the name.
    pub uid: String,
    /// Groups.
    pub groups: Vec<String>,
    /// Anything else the authenticator knows.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// A user with groups, `system:authenticated` added.
    pub fn known(name: &str, groups: &[&str]) -> Self {
        let mut groups: Vec<String> = groups.iter().map(|&group| group.to_owned()).collect();
        if !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        Self {
            name: name.to_owned(),
            groups,
            ..Self::default()
        }
    }

    /// Somebody who did not say who.
    pub fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// An administrator.
    pub fn admin() -> Self {
        Self::known("admin", &[MASTERS])
    }

    /// Whether the user is in a group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|name| name == group)
    }
}

/// Paths everyone may read.
const PUBLIC: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// Everyone who is known may do everything; everyone else may ask how the server is.
pub(crate) fn authorize(user: &UserInfo, info: &RequestInfo) -> Result<(), Status> {
    let public = info.resource.is_none()
        && PUBLIC.iter().any(|path| {
            info.path == *path
                || info
                    .path
                    .strip_prefix(path)
                    .is_some_and(|rest| rest.starts_with('/'))
        });
    if public || user.is_in(AUTHENTICATED) {
        Ok(())
    } else {
        Err(forbidden(user, info))
    }
}

/// The 403 for a request.
pub(crate) fn forbidden(user: &UserInfo, info: &RequestInfo) -> Status {
    forbidden_to(user, info.verb.as_str(), info)
}

/// The 403 for a verb that is not the one of the request.
fn forbidden_to(user: &UserInfo, verb: &str, info: &RequestInfo) -> Status {
    let user = go_quote(&user.name);
    let Some(path) = &info.resource else {
        let why = format!("User {user} cannot {verb} path {}", go_quote(&info.path));
        return Status::forbidden(None, "", &why);
    };
    let resource = if path.subresource.is_empty() {
        path.resource.clone()
    } else {
        format!("{}/{}", path.resource, path.subresource)
    };
    let scope = if path.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace {}", go_quote(&path.namespace))
    };
    let why = format!(
        "User {user} cannot {verb} resource {} in API group {} {scope}",
        go_quote(&resource),
        go_quote(&path.group)
    );
    let group_resource = GroupResource::new(&path.group, &path.resource);
    Status::forbidden(Some(&group_resource), &path.name, &why)
}
