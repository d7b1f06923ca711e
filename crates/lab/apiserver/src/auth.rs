//! Authentication and authorization.

use std::collections::BTreeMap;

use machinery::status::Status;

mod attributes;
mod authenticator;
mod authorizer;
mod escalation;
mod impersonation;
mod rbac;
mod service_account;
mod token_file;

pub(crate) use attributes::{Attributes, Resource as ResourceAttributes, Target};
pub use authenticator::Authenticator;
pub(crate) use authorizer::Authorizer;
pub(crate) use escalation::confirm_no_escalation;
pub(crate) use impersonation::Impersonation;
pub(crate) use rbac::{Rule, missing_roles, uncovered};
pub use service_account::{SigningKey, TokenClaims};
pub use token_file::{StaticTokens, TokenFileError};

/// The group with all permissions.
pub const MASTERS: &str = "system:masters";
/// The group of all authenticated users.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of all other requests.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The user name of unauthenticated requests.
pub const ANONYMOUS: &str = "system:anonymous";

/// A user.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UserInfo {
    /// Name.
    pub name: String,
    /// Unique ID, which outlives the name.
    pub uid: String,
    /// Groups.
    pub groups: Vec<String>,
    /// Further attributes from the authenticator.
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

    /// The unauthenticated user.
    pub fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// A user with cluster-admin permissions.
    pub fn admin() -> Self {
        Self::known("admin", &[MASTERS])
    }

    /// Whether the user is in a group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|name| name == group)
    }
}

/// Authorizes a request; the error is its 403.
pub(crate) fn authorize(
    authorizer: &Authorizer,
    user: &UserInfo,
    attributes: &Attributes<'_>,
) -> Result<(), Status> {
    let decision = authorizer.authorize(user, attributes);
    if decision.allowed {
        Ok(())
    } else {
        Err(attributes.forbidden(user, &decision.reason))
    }
}
