//! Who is asking, and whether they may.

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

/// Whether a request may be made; the 403 if not.
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
