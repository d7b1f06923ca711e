//! All roles and bindings, indexed by subject.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use machinery::gvk::GroupResource;
use machinery::json::go_quote;
use machinery::meta;
use serde_json::Value;

use super::{Attributes, Decision, Rule, aggregate};
use crate::auth::UserInfo;

const GROUP: &str = "rbac.authorization.k8s.io";

/// The kinds of RBAC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Role.
    Role,
    /// ClusterRole.
    ClusterRole,
    /// RoleBinding.
    RoleBinding,
    /// ClusterRoleBinding.
    ClusterRoleBinding,
}

impl Kind {
    /// All kinds, roles first.
    pub(crate) const ALL: [Self; 4] = [
        Self::ClusterRole,
        Self::Role,
        Self::ClusterRoleBinding,
        Self::RoleBinding,
    ];

    /// Plural, the path segment.
    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::Role => "roles",
            Self::ClusterRole => "clusterroles",
            Self::RoleBinding => "rolebindings",
            Self::ClusterRoleBinding => "clusterrolebindings",
        }
    }

    /// The kind with a plural.
    pub(crate) fn of_plural(plural: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.plural() == plural)
    }
}

/// The role reference of a binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RoleRef {
    /// `Role` or `ClusterRole`.
    pub kind: String,
    /// Name.
    pub name: String,
}

impl RoleRef {
    /// Reads the reference of a binding.
    pub(crate) fn read(binding: &Value) -> Self {
        let text = |field: &str| binding["roleRef"][field].as_str().unwrap_or_default();
        Self {
            kind: text("kind").to_owned(),
            name: text("name").to_owned(),
        }
    }
}

/// A role that a binding refers to and that does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NoSuchRole(pub RoleRef);

impl NoSuchRole {
    /// The error of upstream's informers, which name the resource in the singular.
    fn in_lookup(&self) -> String {
        let RoleRef { kind, name } = &self.0;
        match kind.as_str() {
            "Role" => format!("role.{GROUP} {} not found", go_quote(name)),
            "ClusterRole" => format!("clusterrole.{GROUP} {} not found", go_quote(name)),
            other => format!("unsupported role reference kind: {}", go_quote(other)),
        }
    }

    /// The error of upstream's storage, which names the resource of the request.
    pub(crate) fn during_write_of(&self, resource: &GroupResource) -> String {
        match self.0.kind.as_str() {
            "Role" | "ClusterRole" => format!("{resource} {} not found", go_quote(&self.0.name)),
            _ => self.in_lookup(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Who {
    User(String),
    Group(String),
}

#[derive(Debug)]
struct Subject {
    who: Who,
    /// Kind and name for messages.
    description: String,
}

#[derive(Debug)]
struct Binding {
    name: Arc<str>,
    namespace: String,
    role: RoleRef,
    subjects: Vec<Subject>,
}

impl Binding {
    fn read(object: &Value) -> Self {
        let namespace = meta::namespace(object);
        let subjects = object["subjects"].as_array().into_iter().flatten();
        Self {
            name: meta::name(object).into(),
            namespace: namespace.to_owned(),
            role: RoleRef::read(object),
            subjects: subjects
                .filter_map(|subject| Subject::read(subject, namespace))
                .collect(),
        }
    }

    /// The first subject that matches the user or one of its groups.
    fn subject_for(&self, user: &UserInfo) -> Option<&Subject> {
        self.subjects.iter().find(|subject| match &subject.who {
            Who::User(name) => *name == user.name,
            Who::Group(name) => user.is_in(name),
        })
    }

    /// The binding as the reason of a decision.
    fn describe(&self, user: &UserInfo) -> String {
        let (kind, name) = if self.namespace.is_empty() {
            ("ClusterRoleBinding", self.name.to_string())
        } else {
            ("RoleBinding", format!("{}/{}", self.name, self.namespace))
        };
        let subject = self
            .subject_for(user)
            .map(|subject| subject.description.as_str())
            .unwrap_or_default();
        format!(
            "{kind} {} of {} {} to {subject}",
            go_quote(&name),
            self.role.kind,
            go_quote(&self.role.name)
        )
    }
}

impl Subject {
    fn read(subject: &Value, binding_namespace: &str) -> Option<Self> {
        let text = |field: &str| subject[field].as_str().unwrap_or_default();
        let (kind, name) = (text("kind"), text("name"));
        let described = |name: &str| format!("{kind} {}", go_quote(name));
        match kind {
            "User" => Some(Self {
                who: Who::User(name.to_owned()),
                description: described(name),
            }),
            "Group" => Some(Self {
                who: Who::Group(name.to_owned()),
                description: described(name),
            }),
            "ServiceAccount" => {
                // An account without a namespace is in the namespace of the binding.
                let namespace = match text("namespace") {
                    "" => binding_namespace,
                    namespace => namespace,
                };
                (!namespace.is_empty()).then(|| Self {
                    who: Who::User(format!("system:serviceaccount:{namespace}:{name}")),
                    description: described(&format!("{name}/{namespace}")),
                })
            }
            _ => None,
        }
    }
}

/// The bindings of one namespace, or cluster-wide ones.
#[derive(Debug, Default)]
struct Bindings {
    named: HashMap<Arc<str>, Arc<Binding>>,
    of_users: HashMap<String, Vec<Arc<Binding>>>,
    of_groups: HashMap<String, Vec<Arc<Binding>>>,
}

impl Bindings {
    fn put(&mut self, binding: Binding) {
        // The old version first: subjects that the new one lacks would otherwise stay in the index
        // and keep their permissions.
        self.remove(&binding.name);
        let binding = Arc::new(binding);
        for subject in &binding.subjects {
            let list = match &subject.who {
                Who::User(name) => self.of_users.entry(name.clone()).or_default(),
                Who::Group(name) => self.of_groups.entry(name.clone()).or_default(),
            };
            list.push(Arc::clone(&binding));
        }
        self.named.insert(Arc::clone(&binding.name), binding);
    }

    fn remove(&mut self, name: &str) {
        let Some(binding) = self.named.remove(name) else {
            return;
        };
        for subject in &binding.subjects {
            let (index, key) = match &subject.who {
                Who::User(name) => (&mut self.of_users, name),
                Who::Group(name) => (&mut self.of_groups, name),
            };
            if let Some(list) = index.get_mut(key) {
                list.retain(|known| known.name != binding.name);
                if list.is_empty() {
                    index.remove(key);
                }
            }
        }
    }

    /// The bindings of a user, by name and without duplicates.
    fn of<'a>(&'a self, user: &UserInfo) -> Vec<&'a Arc<Binding>> {
        let mut found: Vec<&Arc<Binding>> = self
            .of_users
            .get(&user.name)
            .into_iter()
            .flatten()
            .collect();
        for group in &user.groups {
            found.extend(self.of_groups.get(group).into_iter().flatten());
        }
        // By name, so that the reason of a decision is the same in every run; upstream iterates
        // over a cache in random order.
        found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        found.dedup_by(|a, b| a.name == b.name);
        found
    }
}

/// All roles and bindings.
#[derive(Debug, Default)]
pub(crate) struct Policy {
    cluster_roles: HashMap<String, Vec<Rule>>,
    roles: HashMap<String, BTreeMap<String, Vec<Rule>>>,
    cluster_bindings: Bindings,
    bindings: HashMap<String, Bindings>,
}

/// The rules of one binding of a user.
struct Grant<'a> {
    binding: &'a Binding,
    rules: Result<&'a [Rule], NoSuchRole>,
}

impl Policy {
    /// Adds or replaces an object.
    pub(crate) fn put(&mut self, kind: Kind, object: &Value) {
        let (namespace, name) = (meta::namespace(object), meta::name(object));
        match kind {
            Kind::ClusterRole => {
                let rules = Rule::read_all(object);
                self.cluster_roles.insert(name.to_owned(), rules);
            }
            Kind::Role => {
                let roles = self.roles.entry(namespace.to_owned()).or_default();
                roles.insert(name.to_owned(), Rule::read_all(object));
            }
            Kind::ClusterRoleBinding => self.cluster_bindings.put(Binding::read(object)),
            Kind::RoleBinding => {
                let bindings = self.bindings.entry(namespace.to_owned()).or_default();
                bindings.put(Binding::read(object));
            }
        }
    }

    /// Removes a deleted object.
    pub(crate) fn remove(&mut self, kind: Kind, object: &Value) {
        let (namespace, name) = (meta::namespace(object), meta::name(object));
        match kind {
            Kind::ClusterRole => {
                self.cluster_roles.remove(name);
            }
            Kind::Role => {
                if let Some(roles) = self.roles.get_mut(namespace) {
                    roles.remove(name);
                    if roles.is_empty() {
                        self.roles.remove(namespace);
                    }
                }
            }
            Kind::ClusterRoleBinding => self.cluster_bindings.remove(name),
            Kind::RoleBinding => {
                if let Some(bindings) = self.bindings.get_mut(namespace) {
                    bindings.remove(name);
                    if bindings.named.is_empty() {
                        self.bindings.remove(namespace);
                    }
                }
            }
        }
    }

    /// Decides a request. The first rule that allows it is the reason; cluster role bindings come
    /// before role bindings.
    pub(crate) fn decide(&self, user: &UserInfo, attributes: &Attributes<'_>) -> Decision {
        let mut missing = Vec::new();
        for grant in self.grants(user, attributes.namespace()) {
            match grant.rules {
                Ok(rules) if rules.iter().any(|rule| rule.allows(attributes)) => {
                    return Decision {
                        allowed: true,
                        reason: format!("RBAC: allowed by {}", grant.binding.describe(user)),
                    };
                }
                Ok(_) => {}
                // A binding to a missing role neither grants nor ends the search: another binding
                // may still allow the request (`VisitRulesFor` in
                // `pkg/registry/rbac/validation/rule.go`).
                Err(error) => missing.push(error.in_lookup()),
            }
        }
        Decision {
            allowed: false,
            reason: if missing.is_empty() {
                String::new()
            } else {
                format!("RBAC: {}", aggregate(&missing))
            },
        }
    }

    /// All rules of a user in a namespace (empty: cluster-wide), and the missing roles.
    pub(crate) fn rules_for(
        &self,
        user: &UserInfo,
        namespace: &str,
    ) -> (Vec<Rule>, Vec<NoSuchRole>) {
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for grant in self.grants(user, namespace) {
            match grant.rules {
                Ok(rules) => found.extend_from_slice(rules),
                Err(error) => missing.push(error),
            }
        }
        (found, missing)
    }

    /// The rules of a role reference from a namespace, or from the cluster.
    pub(crate) fn rules_of(&self, role: &RoleRef, namespace: &str) -> Result<&[Rule], NoSuchRole> {
        let rules = match role.kind.as_str() {
            "Role" => self
                .roles
                .get(namespace)
                .and_then(|roles| roles.get(&role.name)),
            "ClusterRole" => self.cluster_roles.get(&role.name),
            _ => None,
        };
        rules
            .map(Vec::as_slice)
            .ok_or_else(|| NoSuchRole(role.clone()))
    }

    fn grants<'a>(
        &'a self,
        user: &UserInfo,
        namespace: &str,
    ) -> impl Iterator<Item = Grant<'a>> + use<'a> {
        let mut found = self.cluster_bindings.of(user);
        if let Some(bindings) = self
            .bindings
            .get(namespace)
            // Cluster-scoped objects and lists over all namespaces are allowed by cluster role
            // bindings alone.
            .filter(|_| !namespace.is_empty())
        {
            found.extend(bindings.of(user));
        }
        found.into_iter().map(|binding| Grant {
            binding,
            rules: self.rules_of(&binding.role, &binding.namespace),
        })
    }
}

/// The missing roles with the errors of upstream's informers.
pub(crate) fn missing_roles(missing: &[NoSuchRole]) -> String {
    let texts: Vec<String> = missing.iter().map(NoSuchRole::in_lookup).collect();
    aggregate(&texts)
}
