//! Modes of impersonation (upstream's constrained impersonation, and the legacy verb
//! `impersonate`).

use machinery::field::{self, Path};
use machinery::names;
use machinery::status::Status;

use super::{May, only_name};
use crate::auth::attributes::{Attributes, Resource};
use crate::auth::{ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED, UserInfo};
use crate::builtin::check;

const AUTHENTICATION: &str = "authentication.k8s.io";
/// Extra key with the node on which the pod of a service account runs.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
/// From this number of groups or extra values on, the permission for all of them is checked first.
// One check instead of many for the users of large directories, who are in hundreds of groups.
const WILDCARD_THRESHOLD: usize = 4;

/// A mode of impersonation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Service accounts impersonating the node of their pod.
    AssociatedNode,
    /// Any node.
    ArbitraryNode,
    /// Service accounts.
    ServiceAccount,
    /// Everyone else.
    UserInfo,
    /// The verb `impersonate` on users, groups and so on, for every request.
    Legacy,
}

/// All modes, in the order they are tried.
pub(super) const MODES: [Mode; 5] = [
    Mode::AssociatedNode,
    Mode::ArbitraryNode,
    Mode::ServiceAccount,
    Mode::UserInfo,
    Mode::Legacy,
];

impl Mode {
    /// The verb infix of this mode; the legacy mode has none.
    fn constraint(self) -> Option<&'static str> {
        match self {
            Self::AssociatedNode => Some("associated-node"),
            Self::ArbitraryNode => Some("arbitrary-node"),
            Self::ServiceAccount => Some("serviceaccount"),
            Self::UserInfo => Some("user-info"),
            Self::Legacy => None,
        }
    }

    /// Whether the mode applies to these users.
    fn applies(self, asking: &UserInfo, wanted: &UserInfo) -> bool {
        let (node, account) = (node(&wanted.name), service_account(&wanted.name));
        match self {
            Self::AssociatedNode => {
                let runs_on = asking.extra.get(NODE_NAME).map(Vec::as_slice);
                only_name(wanted)
                    && service_account(&asking.name).is_some()
                    && node.is_some_and(
                        |node| matches!(runs_on, Some([name]) if name.as_str() == node),
                    )
            }
            Self::ArbitraryNode => only_name(wanted) && node.is_some(),
            Self::ServiceAccount => only_name(wanted) && account.is_some(),
            Self::UserInfo => node.is_none() && account.is_none(),
            Self::Legacy => true,
        }
    }

    /// The user to impersonate; `None` when the mode does not apply.
    pub(super) fn check(
        self,
        asking: &UserInfo,
        wanted: &UserInfo,
        request: &Attributes<'_>,
        may: &May<'_>,
    ) -> Result<Option<UserInfo>, Status> {
        if !self.applies(asking, wanted) {
            return Ok(None);
        }
        let check = Check { asking, may };
        let verb = match self.constraint() {
            None => "impersonate".to_owned(),
            Some(constraint) => {
                let verb = format!("impersonate-on:{constraint}:{}", request.verb);
                check.allowed(&request.with_verb(verb))?;
                format!("impersonate:{constraint}")
            }
        };
        let group = self.constraint().map_or("", |_| AUTHENTICATION);
        let mut user = wanted.clone();
        self.name(&check, &verb, group, &mut user)?;
        if !wanted.uid.is_empty() {
            let target = target(AUTHENTICATION, "uids", &wanted.uid);
            check.allowed(&Attributes::on(verb.as_str(), target))?;
        }
        self.groups(&check, &verb, group, &wanted.groups)?;
        self.extra(&check, &verb, wanted)?;
        if user.name == ANONYMOUS {
            ensure_group(&mut user, UNAUTHENTICATED);
        } else if !user.is_in(UNAUTHENTICATED) {
            ensure_group(&mut user, AUTHENTICATED);
        }
        Ok(Some(user))
    }

    /// Checks the permission for the name, and returns the implied groups.
    fn name(
        self,
        check: &Check<'_>,
        verb: &str,
        group: &str,
        user: &mut UserInfo,
    ) -> Result<(), Status> {
        let name = user.name.clone();
        let mut target = target(group, "users", &name);
        if self != Self::Legacy
            && let Some(node) = node(&name)
        {
            target.plural = "nodes";
            // The node itself has been checked already.
            target.name = match self {
                Self::AssociatedNode => "*",
                _ => node,
            };
            user.groups = vec!["system:nodes".to_owned()];
        }
        if let Some((namespace, account)) = service_account(&name) {
            target.plural = "serviceaccounts";
            target.namespace = namespace;
            target.name = account;
            if user.groups.is_empty() {
                user.groups = vec![
                    "system:serviceaccounts".to_owned(),
                    format!("system:serviceaccounts:{namespace}"),
                ];
            }
        }
        check.allowed(&Attributes::on(verb, target))
    }

    fn groups(
        self,
        check: &Check<'_>,
        verb: &str,
        group: &str,
        wanted: &[String],
    ) -> Result<(), Status> {
        let one = |name| Attributes::on(verb, target(group, "groups", name));
        if self != Self::Legacy {
            if wanted.iter().any(String::is_empty) {
                let why = "impersonating the empty string group is not allowed";
                return Err(one("").forbidden(check.asking, why));
            }
            // The constrained modes exclude it, because its members bypass RBAC, which is what
            // constrains them. The legacy verb still allows it.
            if wanted.iter().any(|name| name == MASTERS) {
                let why = "impersonating the system:masters group is not allowed";
                return Err(one(MASTERS).forbidden(check.asking, why));
            }
            if wanted.len() >= WILDCARD_THRESHOLD && check.allowed(&one("*")).is_ok() {
                return Ok(());
            }
        }
        wanted.iter().try_for_each(|name| check.allowed(&one(name)))
    }

    fn extra(self, check: &Check<'_>, verb: &str, wanted: &UserInfo) -> Result<(), Status> {
        let one = |key, value| {
            let target = Resource {
                subresource: key,
                ..target(AUTHENTICATION, "userextras", value)
            };
            Attributes::on(verb, target)
        };
        if self != Self::Legacy {
            for (key, values) in &wanted.extra {
                check_extra(key, values)
                    .map_err(|why| one("", "").forbidden(check.asking, &why))?;
            }
            let values: usize = wanted.extra.values().map(Vec::len).sum();
            if values >= WILDCARD_THRESHOLD && check.allowed(&one("*", "*")).is_ok() {
                return Ok(());
            }
        }
        for (key, values) in &wanted.extra {
            for value in values {
                check.allowed(&one(key, value))?;
            }
        }
        Ok(())
    }
}

/// Checks that only the constrained modes make.
fn check_extra(key: &str, values: &[String]) -> Result<(), String> {
    if key.is_empty() {
        return Err("impersonating the empty string key in extra is not allowed".to_owned());
    }
    let errors = check::domain_prefixed_path(&Path::new("extra.key"), key);
    if !errors.is_empty() {
        return Err(format!(
            "impersonating an invalid key in extra is not allowed: {}",
            field::aggregate(&errors)
        ));
    }
    if key != key.to_lowercase() {
        return Err(format!(
            "impersonating a non-lowercase key in extra is not allowed: {}",
            machinery::json::go_quote(key)
        ));
    }
    if values.iter().any(String::is_empty) {
        return Err("impersonating the empty string value in extra is not allowed".to_owned());
    }
    Ok(())
}

/// The checks of one request.
struct Check<'a> {
    asking: &'a UserInfo,
    may: &'a May<'a>,
}

impl Check<'_> {
    fn allowed(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let decision = (self.may)(self.asking, attributes);
        if decision.allowed {
            Ok(())
        } else {
            Err(attributes.forbidden(self.asking, &decision.reason))
        }
    }
}

fn target<'a>(group: &'a str, plural: &'a str, name: &'a str) -> Resource<'a> {
    Resource {
        group,
        plural,
        name,
        ..Resource::default()
    }
}

fn ensure_group(user: &mut UserInfo, group: &str) {
    if !user.is_in(group) {
        user.groups.push(group.to_owned());
    }
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
