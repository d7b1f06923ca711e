//! Authorization attributes of a request.

use std::borrow::Cow;

use machinery::gvk::GroupResource;
use machinery::json::go_quote;
use machinery::status::Status;

use super::UserInfo;
use crate::request::RequestInfo;

/// A verb and its target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attributes<'a> {
    /// Verb: one of RBAC's for resources, the method in lower case for paths.
    pub verb: Cow<'a, str>,
    /// Its target.
    pub target: Target<'a>,
}

/// The target of a verb.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    /// A path that is no resource.
    Path(Cow<'a, str>),
    /// An object, a collection, or a part of an object.
    Resource(Resource<'a>),
}

/// An object, a collection, or a subresource; fields that do not apply are empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Resource<'a> {
    /// API group.
    pub group: &'a str,
    /// Plural.
    pub plural: &'a str,
    /// Subresource.
    pub subresource: &'a str,
    /// Namespace.
    pub namespace: &'a str,
    /// Name.
    pub name: &'a str,
}

impl<'a> Attributes<'a> {
    /// A verb on a resource.
    pub(crate) fn on(verb: impl Into<Cow<'a, str>>, resource: Resource<'a>) -> Self {
        Self {
            verb: verb.into(),
            target: Target::Resource(resource),
        }
    }

    /// The same with another verb.
    pub(crate) fn with_verb(&self, verb: impl Into<Cow<'a, str>>) -> Self {
        Self {
            verb: verb.into(),
            target: self.target.clone(),
        }
    }

    /// The namespace whose rules apply besides the cluster-wide ones.
    pub(crate) fn namespace(&self) -> &str {
        match &self.target {
            Target::Path(_) => "",
            Target::Resource(resource) => resource.namespace,
        }
    }

    /// The 403 for a user without permission; `reason` is the authorizer's, if any.
    pub(crate) fn forbidden(&self, user: &UserInfo, reason: &str) -> Status {
        let mut why = self.refusal(&user.name);
        if !reason.is_empty() {
            why = format!("{why}: {reason}");
        }
        match &self.target {
            Target::Path(_) => Status::forbidden(None, "", &why),
            Target::Resource(resource) => {
                let about = GroupResource::new(resource.group, resource.plural);
                Status::forbidden(Some(&about), resource.name, &why)
            }
        }
    }

    fn refusal(&self, user: &str) -> String {
        let (user, verb) = (go_quote(user), &self.verb);
        let text = match &self.target {
            Target::Path(path) => format!("User {user} cannot {verb} path {}", go_quote(path)),
            Target::Resource(resource) => {
                let scope = if resource.namespace.is_empty() {
                    "at the cluster scope".to_owned()
                } else {
                    format!("in the namespace {}", go_quote(resource.namespace))
                };
                format!(
                    "User {user} cannot {verb} resource {} in API group {} {scope}",
                    go_quote(&resource.combined()),
                    go_quote(resource.group)
                )
            }
        };
        // As upstream, so that no browser renders the response as a page.
        text.replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
    }
}

impl<'a> Resource<'a> {
    /// Plural and subresource, as rules and messages write them.
    pub(crate) fn combined(&self) -> Cow<'a, str> {
        if self.subresource.is_empty() {
            Cow::Borrowed(self.plural)
        } else {
            Cow::Owned(format!("{}/{}", self.plural, self.subresource))
        }
    }
}

impl<'a> From<&'a RequestInfo> for Attributes<'a> {
    fn from(info: &'a RequestInfo) -> Self {
        let Some(path) = &info.resource else {
            return Self {
                verb: info.method.as_str().to_ascii_lowercase().into(),
                target: Target::Path(info.path.as_str().into()),
            };
        };
        // A field selector on the name makes a collection request one for that object, so
        // permissions by name apply.
        let name = if path.name.is_empty() {
            info.selected_name.as_str()
        } else {
            path.name.as_str()
        };
        // For authorization a namespace is in itself, so that its own admins may read it.
        let namespace = if path.group.is_empty() && path.resource == "namespaces" {
            path.name.as_str()
        } else {
            path.namespace.as_str()
        };
        Self::on(
            info.verb.as_str(),
            Resource {
                group: &path.group,
                plural: &path.resource,
                subresource: &path.subresource,
                namespace,
                name,
            },
        )
    }
}
