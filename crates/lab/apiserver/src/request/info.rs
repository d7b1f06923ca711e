//! From method and path to verb and target (`apiserver/pkg/endpoints/request/requestinfo.go`).

use http::Method;
use machinery::names::name_is_path_segment;
use machinery::selector::{FieldSelector, LabelSelector};
use percent_encoding::percent_decode_str;

use super::options::Query;

/// The verb of a request, named as in RBAC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Verb {
    /// Read one object.
    Get,
    /// Read a collection.
    List,
    /// Watch a collection.
    Watch,
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH.
    Patch,
    /// DELETE with a name.
    Delete,
    /// DELETE without one.
    DeleteCollection,
    /// Any other method; resources respond with 405.
    Other,
}

impl Verb {
    /// Whether it is a write.
    pub(crate) fn is_write(self) -> bool {
        matches!(
            self,
            Self::Create | Self::Update | Self::Patch | Self::Delete | Self::DeleteCollection
        )
    }

    /// The name in authorization and error messages.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Other => "",
        }
    }
}

/// A parsed resource path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    /// API group, empty for core.
    pub group: String,
    /// Version.
    pub version: String,
    /// Namespace, empty when the path has none.
    pub namespace: String,
    /// Plural.
    pub resource: String,
    /// Object name, empty for a collection.
    pub name: String,
    /// Subresource, empty for the object itself.
    pub subresource: String,
    /// Segments after the subresource; only proxies have any.
    pub rest: Vec<String>,
}

/// Verb and target of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestInfo {
    /// Verb.
    pub verb: Verb,
    /// Method as sent; authorization of non-resource paths uses it as the verb.
    pub method: Method,
    /// Path, unescaped.
    pub path: String,
    /// The parsed resource path, `None` for other paths.
    pub resource: Option<ResourcePath>,
    /// The name in the field selector of a list or watch; authorization uses it as the name of the
    /// object.
    pub selected_name: String,
}

impl RequestInfo {
    /// Reads method, path and query.
    pub(crate) fn parse(method: &Method, path: &str, query: &Query) -> Self {
        // Decoded before it is split, as upstream: an escaped slash is a slash to authorization
        // too.
        let path = percent_decode_str(path).decode_utf8_lossy();
        let mut info = Self {
            verb: plain_verb(method),
            method: method.clone(),
            path: path.clone().into_owned(),
            resource: None,
            selected_name: String::new(),
        };
        let mut segments: Vec<String> = path
            .trim_matches('/')
            .split('/')
            .filter(|segment| !segment.is_empty())
            .map(str::to_owned)
            .collect();
        let group = match segments.first().map(String::as_str) {
            Some("api") if segments.len() >= 3 => {
                segments.drain(..1);
                String::new()
            }
            Some("apis") if segments.len() >= 4 => {
                segments.drain(..1);
                segments.remove(0)
            }
            _ => return info,
        };
        let version = segments.remove(0);
        info.verb = match *method {
            Method::POST => Verb::Create,
            Method::GET | Method::HEAD => Verb::Get,
            Method::PUT => Verb::Update,
            Method::PATCH => Verb::Patch,
            Method::DELETE => Verb::Delete,
            _ => Verb::Other,
        };
        // The deprecated `/watch/` prefix is still served.
        if segments.first().is_some_and(|s| s == "watch") && segments.len() > 1 {
            segments.remove(0);
            info.verb = Verb::Watch;
        }
        let mut namespace = String::new();
        if segments.first().is_some_and(|s| s == "namespaces") && segments.len() > 1 {
            namespace.clone_from(&segments[1]);
            // `namespaces/x`, `namespaces/x/status` and `namespaces/x/finalize` address the
            // namespace itself; longer paths are inside it.
            let about_itself = segments.len() == 2
                || (segments.len() == 3 && matches!(segments[2].as_str(), "status" | "finalize"));
            if !about_itself {
                segments.drain(..2);
            }
        }
        let mut parts = segments.into_iter();
        let mut path = ResourcePath {
            group,
            version,
            namespace,
            resource: parts.next().unwrap_or_default(),
            name: parts.next().unwrap_or_default(),
            subresource: parts.next().unwrap_or_default(),
            rest: parts.collect(),
        };
        if path.name.is_empty() {
            match info.verb {
                Verb::Get => {
                    info.verb = if query.flag("watch") {
                        Verb::Watch
                    } else {
                        Verb::List
                    };
                    // A role for one name then allows `kubectl get pod x --watch`, which is a list
                    // with a field selector.
                    info.selected_name = selected_name(query);
                }
                Verb::Delete => info.verb = Verb::DeleteCollection,
                _ => {}
            }
        }
        if path.resource == "namespaces" && path.group.is_empty() {
            // A namespace is cluster scoped: its name is not the namespace of the request.
            path.namespace = String::new();
        }
        info.resource = Some(path);
        info
    }
}

/// The one name a list is limited to, if all its selectors parse.
fn selected_name(query: &Query) -> String {
    let fields = query.text("fieldSelector");
    if fields.is_empty() || LabelSelector::parse(query.text("labelSelector")).is_err() {
        return String::new();
    }
    FieldSelector::parse(fields)
        .ok()
        .and_then(|selector| selector.requires_exact("metadata.name").map(str::to_owned))
        .filter(|name| name_is_path_segment(name, false).is_empty())
        .unwrap_or_default()
}

fn plain_verb(method: &Method) -> Verb {
    match *method {
        Method::GET | Method::HEAD => Verb::Get,
        Method::POST => Verb::Create,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE => Verb::Delete,
        _ => Verb::Other,
    }
}
