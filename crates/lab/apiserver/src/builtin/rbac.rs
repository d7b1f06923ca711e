//! The `rbac.authorization.k8s.io` group.

use jiff::Timestamp;
use machinery::field::{FieldError, Path};
use machinery::names::name_is_path_segment;
use serde_json::Value;

use crate::builtin::entry::{AGE, Capabilities, Column, Entry, Errors, NAME, column, wide};
use crate::builtin::value::{Read, fill_empty, items_mut};
use crate::builtin::{check, labels, layout, print};

const GROUP: &str = "rbac.authorization.k8s.io";

/// All kinds of the group.
pub(crate) const ENTRIES: &[Entry] = &[CLUSTER_ROLE_BINDING, CLUSTER_ROLE, ROLE_BINDING, ROLE];

const BASE: Entry = Entry {
    capabilities: Capabilities {
        create_on_update: true,
        ..Capabilities::NONE
    },
    prepare_create: |_, _| (),
    prepare_update: |_, _, _, _| (),
    name: name_is_path_segment,
    ..Entry::new(GROUP, "v1", "Role", "roles", "role")
};

const ROLE: Entry = Entry {
    validate: |role| check_rules(role, true),
    validate_update: |new, _, _| check_rules(new, true),
    ..BASE
};

const CLUSTER_ROLE: Entry = Entry {
    kind: "ClusterRole",
    plural: "clusterroles",
    singular: "clusterrole",
    namespaced: false,
    validate: check_cluster_role,
    validate_update: |new, _, _| check_cluster_role(new),
    ..BASE
};

const ROLE_BINDING: Entry = Entry {
    kind: "RoleBinding",
    plural: "rolebindings",
    singular: "rolebinding",
    default: default_binding,
    validate: |binding| check_binding(binding, true),
    validate_update: |new, old, _| check_binding_update(new, old, true),
    columns: BINDING_COLUMNS,
    cells: binding_cells,
    ..BASE
};

const CLUSTER_ROLE_BINDING: Entry = Entry {
    kind: "ClusterRoleBinding",
    plural: "clusterrolebindings",
    singular: "clusterrolebinding",
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
    for (i, rule) in role.items("rules").iter().enumerate() {
        let path = Path::new("rules").index(i);
        if rule.count("verbs") == 0 {
            let detail = "verbs must contain at least one value";
            errors.push(FieldError::required(&path.child("verbs"), detail));
        }
        if rule.count("nonResourceURLs") > 0 {
            let here = path.child("nonResourceURLs");
            let mut wrong = |detail: &str| {
                let shown = rule.at("nonResourceURLs").clone();
                errors.push(FieldError::invalid(&here, shown, detail));
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
                errors.push(FieldError::required(&path.child(field), detail));
            }
        }
    }
    errors
}

fn check_cluster_role(role: &Value) -> Errors {
    let mut errors = check_rules(role, false);
    if role.has("aggregationRule") {
        let path = check::path("aggregationRule.clusterRoleSelectors");
        let selectors = role.items("aggregationRule.clusterRoleSelectors");
        if selectors.is_empty() {
            let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            errors.push(FieldError::required(&path, detail));
        }
        for (i, selector) in selectors.iter().enumerate() {
            errors.extend(labels::check_selector(&path.index(i), selector));
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
    errors.extend(check::supported(
        &path.child("kind"),
        role.text("kind"),
        kinds,
    ));
    match role.text("name") {
        "" => errors.push(FieldError::required(&path.child("name"), "")),
        name => errors.extend(check::segment(&path.child("name"), name)),
    }
    for (i, subject) in binding.items("subjects").iter().enumerate() {
        errors.extend(check_subject(
            &Path::new("subjects").index(i),
            subject,
            namespaced,
        ));
    }
    errors
}

fn check_subject(path: &Path, subject: &Value, namespaced: bool) -> Errors {
    let mut errors = Errors::new();
    let (name, group) = (subject.text("name"), subject.text("apiGroup"));
    errors.extend(check::required(&path.child("name"), name));
    match subject.text("kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                errors.extend(check::subdomain(&path.child("name"), name));
            }
            errors.extend(check::supported(&path.child("apiGroup"), group, &[""]));
            if !namespaced {
                let namespace = subject.text("namespace");
                errors.extend(check::required(&path.child("namespace"), namespace));
            }
        }
        "User" | "Group" => {
            errors.extend(check::supported(&path.child("apiGroup"), group, &[GROUP]));
        }
        other => {
            let accepted = ["ServiceAccount", "User", "Group"];
            errors.push(FieldError::not_supported(
                &path.child("kind"),
                other,
                accepted,
            ));
        }
    }
    errors
}

fn check_binding_update(new: &Value, old: &Value, namespaced: bool) -> Errors {
    let mut errors = check_binding(new, namespaced);
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
    column("Role", "string", "The role that is granted"),
    AGE,
    wide("Users", "string", "Users it is granted to"),
    wide("Groups", "string", "Groups it is granted to"),
    wide(
        "ServiceAccounts",
        "string",
        "Service accounts it is granted to",
    ),
];

fn binding_cells(binding: &Value, now: Timestamp) -> Vec<Value> {
    let of = |kind: &str| -> Value {
        let subjects = binding
            .items("subjects")
            .iter()
            .filter(|s| s.text("kind") == kind);
        let names = subjects.map(|subject| match kind {
            "ServiceAccount" => format!("{}/{}", subject.text("namespace"), subject.text("name")),
            _ => subject.text("name").to_owned(),
        });
        names.collect::<Vec<_>>().join(", ").into()
    };
    vec![
        binding.name().into(),
        format!(
            "{}/{}",
            binding.text("roleRef.kind"),
            binding.text("roleRef.name")
        )
        .into(),
        print::age(binding, now),
        of("User"),
        of("Group"),
        of("ServiceAccount"),
    ]
}
