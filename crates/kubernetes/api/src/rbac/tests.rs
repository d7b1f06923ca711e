use serde_json::{Value, json};

use super::*;

fn json_of(role: &ClusterRole) -> Value {
    serde_json::to_value(role).unwrap()
}

#[test]
fn webhook_may_register_only_itself() {
    assert_eq!(
        serde_json::to_value(maintain_webhook("check.medley.dev")).unwrap(),
        json!({
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["mutatingwebhookconfigurations"],
            "resourceNames": ["check.medley.dev"],
            "verbs": ["get", "create", "patch"],
        })
    );
}

#[test]
fn viewer_role_is_aggregated_into_view() {
    let role = json_of(&viewer("looks", "medley.dev", "things"));
    let label = &role["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"];
    assert_eq!(label, "true");
    assert_eq!(role["rules"][0]["verbs"], json!(["get", "list", "watch"]));
}

#[test]
fn editor_role_includes_viewer_and_is_not_aggregated() {
    let role = json_of(&editor("writes", "medley.dev", "things"));
    assert_eq!(role["metadata"], json!({ "name": "writes" }));
    let written = ["create", "update", "patch", "delete"];
    assert_eq!(role["rules"][0]["verbs"], json!(and_read(&written)));
    assert_eq!(EDIT.to_vec(), and_read(&written));
}

#[test]
fn every_permission_is_one_access_check() {
    let rules = [
        rule(
            "apps",
            &["deployments", "deployments/status"],
            &["get", "patch"],
        ),
        only("one", rule("", &["configmaps"], &["get"])),
    ];
    let asked: Vec<_> = questions(&rules, Some("here"))
        .map(|it| {
            (
                it.verb.unwrap(),
                it.resource.unwrap(),
                it.subresource.unwrap_or_default(),
                it.name.unwrap_or_default(),
            )
        })
        .collect();
    let expected = [
        ("get", "deployments", "", ""),
        ("patch", "deployments", "", ""),
        ("get", "deployments", "status", ""),
        ("patch", "deployments", "status", ""),
        ("get", "configmaps", "", "one"),
    ];
    let expected = expected.map(|(verb, resource, part, name)| {
        (
            verb.to_owned(),
            resource.to_owned(),
            part.to_owned(),
            name.to_owned(),
        )
    });
    assert_eq!(asked, expected);
    let group = questions(&rules, None).next().unwrap().group;
    assert_eq!(group.as_deref(), Some("apps"));
}
