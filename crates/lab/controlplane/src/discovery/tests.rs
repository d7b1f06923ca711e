use kube::discovery::ApiResource;

use super::{Kinds, Served};

fn served(api_version: &str, kind: &str, plural: &str, verbs: &[&str]) -> Served {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    Served {
        resource: ApiResource {
            group: group.into(),
            version: version.into(),
            api_version: api_version.into(),
            kind: kind.into(),
            plural: plural.into(),
        },
        namespaced: true,
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
    }
}

#[test]
fn kind_is_listed_once_in_its_preferred_version() {
    let kinds = Kinds::new([vec![
        vec![served("toys/v2", "Kite", "kites", &["get"])],
        vec![
            served("toys/v1", "Kite", "kites", &["get"]),
            served("toys/v1", "Ball", "balls", &["get"]),
        ],
    ]]);
    let preferred: Vec<_> = kinds
        .preferred()
        .iter()
        .map(|kind| {
            (
                kind.resource.plural.as_str(),
                kind.resource.version.as_str(),
            )
        })
        .collect();
    assert_eq!(preferred, [("kites", "v2"), ("balls", "v1")]);
    let older = kinds
        .named("toys/v1", "Kite")
        .map(|kind| kind.resource.version.clone());
    assert_eq!(
        older.as_deref(),
        Some("v1"),
        "references may name any version"
    );
    assert!(kinds.named("toys/v3", "Kite").is_none());
}

#[test]
fn reference_resolves_to_the_readable_kind() {
    let kinds = Kinds::new([vec![vec![
        served("v1", "Binding", "bindings", &["create"]),
        served("v1", "Binding", "storedbindings", &["get", "list"]),
    ]]]);
    let plural = kinds
        .named("v1", "Binding")
        .map(|kind| kind.resource.plural.clone());
    assert_eq!(plural.as_deref(), Some("storedbindings"));
}
