//! Role-based access control: rules, bindings, and the permissions needed to grant them.
//!
//! Everything here is a function of the roles and bindings; `authorizer` keeps them current.
//!
//! ```text
//! user, groups --> bindings that name them --> the roles those refer to --> rules --> allowed?
//! ```

mod cover;
mod policy;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

pub(crate) use cover::{compact, describe, quoted, uncovered};
pub(crate) use policy::{Kind, NoSuchRole, Policy, RoleRef, missing_roles};

use super::attributes::{Attributes, Resource, Target};

/// The wildcard in a rule.
const ALL: &str = "*";

/// One rule of a role: all of its verbs on all of its resources, or on all of its paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    /// Verbs.
    pub verbs: Vec<String>,
    /// API groups of the resources.
    pub groups: Vec<String>,
    /// Plurals, `plural/subresource` or `*/subresource`.
    pub resources: Vec<String>,
    /// Names the rule is limited to; empty means all.
    pub names: Vec<String>,
    /// Non-resource paths; a star at the end matches any rest.
    pub urls: Vec<String>,
}

impl Rule {
    /// Parses a rule of a role; missing fields are empty.
    pub(crate) fn read(rule: &Value) -> Self {
        let texts = |field: &str| -> Vec<String> {
            let list = rule.get(field).and_then(Value::as_array);
            let texts = list.into_iter().flatten().filter_map(Value::as_str);
            texts.map(str::to_owned).collect()
        };
        Self {
            verbs: texts("verbs"),
            groups: texts("apiGroups"),
            resources: texts("resources"),
            names: texts("resourceNames"),
            urls: texts("nonResourceURLs"),
        }
    }

    /// The rules of a role.
    pub(crate) fn read_all(role: &Value) -> Vec<Self> {
        let rules = role.get("rules").and_then(Value::as_array);
        rules.into_iter().flatten().map(Self::read).collect()
    }

    /// The rule as the API returns it, without empty fields.
    pub(crate) fn write(&self) -> Value {
        let mut object = Map::new();
        object.insert("verbs".to_owned(), json!(self.verbs));
        for (field, texts) in [
            ("apiGroups", &self.groups),
            ("resources", &self.resources),
            ("resourceNames", &self.names),
            ("nonResourceURLs", &self.urls),
        ] {
            if !texts.is_empty() {
                object.insert(field.to_owned(), json!(texts));
            }
        }
        Value::Object(object)
    }

    /// Whether the rule allows a request.
    pub(crate) fn allows(&self, attributes: &Attributes<'_>) -> bool {
        matches(&self.verbs, &attributes.verb)
            && match &attributes.target {
                Target::Path(path) => self.urls.iter().any(|url| url_covers(url, path)),
                Target::Resource(resource) => {
                    matches(&self.groups, resource.group)
                        && self.names_resource(resource)
                        // Creations have no name yet, nor have collections.
                        && (self.names.is_empty() || has(&self.names, resource.name))
                }
            }
    }

    fn names_resource(&self, resource: &Resource<'_>) -> bool {
        self.resources.iter().any(|named| {
            if named == ALL {
                return true;
            }
            if resource.subresource.is_empty() {
                // `pods` does not include `pods/log`: subresources are granted by name, as in
                // `pkg/apis/rbac/v1/evaluation_helpers.go`.
                return named == resource.plural;
            }
            let below = |plural: &str| named.strip_prefix(plural)?.strip_prefix('/');
            [resource.plural, ALL]
                .into_iter()
                .any(|plural| below(plural) == Some(resource.subresource))
        })
    }
}

fn has(texts: &[String], text: &str) -> bool {
    texts.iter().any(|known| known == text)
}

fn matches(texts: &[String], text: &str) -> bool {
    texts.iter().any(|known| known == ALL || known == text)
}

/// Whether a path of a rule includes another one, which may itself be a path of a rule.
fn url_covers(url: &str, path: &str) -> bool {
    url == path || (url.ends_with('*') && path.starts_with(url.trim_end_matches('*')))
}

/// An authorization decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decision {
    /// Whether the request is allowed.
    pub allowed: bool,
    /// Why it is allowed, or the authorizer's errors.
    pub reason: String,
}

/// Several errors as one, without duplicates (`errors.NewAggregate`).
pub(crate) fn aggregate(errors: &[String]) -> String {
    let mut distinct: Vec<&str> = Vec::new();
    for error in errors {
        if !distinct.contains(&error.as_str()) {
            distinct.push(error);
        }
    }
    match distinct.as_slice() {
        [one] => (*one).to_owned(),
        several => format!("[{}]", several.join(", ")),
    }
}
