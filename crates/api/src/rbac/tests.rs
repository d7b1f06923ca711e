use serde_json::{Value, json};

use super::*;

fn json_of(role: &ClusterRole) -> Value {
    serde_json::to_value(role).unwrap()
}

#[test]
fn a_check_registers_itself_and_nobody_else() {
    assert_eq!(
        serde_json::to_value(register_check("check.medley.dev")).unwrap(),
        json!({
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["mutatingwebhookconfigurations"],
            "resourceNames": ["check.medley.dev"],
            "verbs": ["get", "create", "patch"],
        })
    );
}

#[test]
fn who_looks_on_does_so_with_the_role_that_every_cluster_has() {
    let role = json_of(&viewer("looks", "medley.dev", "things"));
    let label = &role["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"];
    assert_eq!(label, "true");
    assert_eq!(role["rules"][0]["verbs"], json!(["get", "list", "watch"]));
}

#[test]
fn who_edits_may_do_what_who_looks_on_may_and_comes_with_no_other_role() {
    let role = json_of(&editor("writes", "medley.dev", "things"));
    assert_eq!(role["metadata"], json!({ "name": "writes" }));
    let written = ["create", "update", "patch", "delete"];
    assert_eq!(role["rules"][0]["verbs"], json!(and_read(&written)));
    assert_eq!(EDIT.to_vec(), and_read(&written));
}
