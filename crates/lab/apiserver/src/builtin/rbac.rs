//! The `rbac.authorization.k8s.io` group (rules: `pkg/apis/rbac/validation`).

use machinery::field::Path;
use machinery::names::name_is_path_segment;
use serde_json::Value;

use crate::builtin::entry::Capability::CreateOnUpdate;
use crate::builtin::entry::Cell::Of;
use crate::builtin::entry::{AGE, Column, Entry, Errors, NAME, column};
use crate::builtin::value::{Read, fill_empty, items_mut};
use crate::builtin::{check, labels, layout};

const GROUP: &str = "rbac.authorization.k8s.io";

/// All kinds of the group.
pub(crate) const ENTRIES: &[Entry] = &[CLUSTER_ROLE_BINDING, CLUSTER_ROLE, ROLE_BINDING, ROLE];

const BASE: Entry = Entry {
    capabilities: &[CreateOnUpdate],
    name: name_is_path_segment,
    ..Entry::new(GROUP, "v1", "Role", "roles")
};

const ROLE: Entry = Entry {
    validate: |role| check_rules(role, true),
    validate_update: |new, _, _| check_rules(new, true),
    ..BASE
};

const CLUSTER_ROLE: Entry = Entry {
    kind: "ClusterRole",
    plural: "clusterroles",
    namespaced: false,
    validate: check_cluster_role,
    validate_update: |new, _, _| check_cluster_role(new),
    ..BASE
};

const ROLE_BINDING: Entry = Entry {
    kind: "RoleBinding",
    plural: "rolebindings",
    default: default_binding,
    validate: |binding| check_binding(binding, true),
    validate_update: |new, old, _| check_binding_update(new, old, true),
    columns: BINDING_COLUMNS,
    ..BASE
};

const CLUSTER_ROLE_BINDING: Entry = Entry {
    kind: "ClusterRoleBinding",
    plural: "clusterrolebindings",
    namespaced: false,
    validate: |binding| check_binding(binding, false),
    validate_update: |new, old, _| check_binding_update(new, old, false),
    ..ROLE_BINDING
};

fn default_binding(binding: &mut Value) {
    fill_empty(binding, "roleRef.apiGroup", GROUP);
    for subject in items_mut(binding, "subjects") {
        if matches!(subject.text("kind"), "User" | "Group") {
            fill_empty(subject, "apiGroup", GROUP);
        }
    }
}

fn check_rules(role: &Value, namespaced: bool) -> Errors {
    let mut errors = Errors::new();
    for (path, rule) in role.each(&Path::root(), "rules") {
        if rule.count("verbs") == 0 {
            let detail = "verbs must contain at least one value";
            errors.required(&path.child("verbs"), detail);
        }
        if rule.count("nonResourceURLs") > 0 {
            let here = path.child("nonResourceURLs");
            let mut wrong = |detail: &str| {
                let shown = rule.at("nonResourceURLs").clone();
                errors.invalid(&here, shown, detail);
            };
            if namespaced {
                wrong("namespaced rules cannot apply to non-resource URLs");
            }
            if ["apiGroups", "resources", "resourceNames"]
                .iter()
                .any(|f| rule.count(f) > 0)
            {
                wrong("rules cannot apply to both regular resources and non-resource URLs");
            }
            continue;
        }
        for (field, detail) in [
            (
                "apiGroups",
                "resource rules must supply at least one api group",
            ),
            (
                "resources",
                "resource rules must supply at least one resource",
            ),
        ] {
            if rule.count(field) == 0 {
                errors.required(&path.child(field), detail);
            }
        }
    }
    errors
}

fn check_cluster_role(role: &Value) -> Errors {
    let mut errors = check_rules(role, false);
    if role.has("aggregationRule") {
        let path = Path::new("aggregationRule.clusterRoleSelectors");
        let selectors = role.items("aggregationRule.clusterRoleSelectors");
        if selectors.is_empty() {
            let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            errors.required(&path, detail);
        }
        for (i, selector) in selectors.iter().enumerate() {
            errors += labels::check_selector(&path.index(i), selector);
        }
    }
    errors
}

fn check_binding(binding: &Value, namespaced: bool) -> Errors {
    let path = Path::new("roleRef");
    let role = binding.at("roleRef");
    let mut errors = check::supported(&path.child("apiGroup"), role.text("apiGroup"), &[GROUP]);
    let kinds: &[&str] = if namespaced {
        &["Role", "ClusterRole"]
    } else {
        &["ClusterRole"]
    };
    errors += check::supported(&path.child("kind"), role.text("kind"), kinds);
    errors += check::required_as(&path, role, "name", check::segment);
    for (i, subject) in binding.items("subjects").iter().enumerate() {
        errors += check_subject(&Path::new("subjects").index(i), subject, namespaced);
    }
    errors
}

fn check_subject(path: &Path, subject: &Value, namespaced: bool) -> Errors {
    let mut errors = Errors::new();
    let (name, group) = (subject.text("name"), subject.text("apiGroup"));
    errors += check::required(&path.child("name"), name);
    match subject.text("kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                errors += check::subdomain(&path.child("name"), name);
            }
            errors += check::supported(&path.child("apiGroup"), group, &[""]);
            if !namespaced {
                let namespace = subject.text("namespace");
                errors += check::required(&path.child("namespace"), namespace);
            }
        }
        "User" | "Group" => {
            errors += check::supported(&path.child("apiGroup"), group, &[GROUP]);
        }
        other => {
            let accepted = ["ServiceAccount", "User", "Group"];
            errors.not_supported(&path.child("kind"), other, accepted);
        }
    }
    errors
}

fn check_binding_update(new: &Value, old: &Value, namespaced: bool) -> Errors {
    let mut errors = check_binding(new, namespaced);
    // The permission to edit subjects of a binding must not become one to choose its role.
    if new.at("roleRef") != old.at("roleRef") {
        let path = Path::new("roleRef");
        errors.push(layout::invalid(
            &path,
            "RoleRef",
            new.at("roleRef"),
            "cannot change roleRef",
        ));
    }
    errors
}

const BINDING_COLUMNS: &[Column] = &[
    NAME,
    column!("Role" string Of(|binding| {
        let role = binding.at("roleRef");
        format!("{}/{}", role.text("kind"), role.text("name")).into()
    }) => "The role that is granted"),
    AGE,
    column!("Users" wide Of(|binding| subjects(binding, "User")) => "Users it is granted to"),
    column!("Groups" wide Of(|binding| subjects(binding, "Group")) => "Groups it is granted to"),
    column!("ServiceAccounts" wide Of(|binding| subjects(binding, "ServiceAccount"))
        => "Service accounts it is granted to"),
];

fn subjects(binding: &Value, kind: &str) -> Value {
    let subjects = binding.items("subjects").iter();
    let names = subjects
        .filter(|subject| subject.text("kind") == kind)
        .map(|subject| match kind {
            "ServiceAccount" => format!("{}/{}", subject.text("namespace"), subject.text("name")),
            _ => subject.text("name").to_owned(),
        });
    names.collect::<Vec<_>>().join(", ").into()
}
