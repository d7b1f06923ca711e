use machinery::meta;
use serde_json::{Value, json};

use super::reconcile::{Action, reconcile};
use super::table::{TEXT, read};
use crate::auth::{SigningKey, StaticTokens, UserInfo};
use crate::store::Store;
use crate::{ApiServer, Options};

fn default(kind: &str, name: &str) -> Value {
    let objects = read(TEXT).unwrap();
    let found = objects
        .into_iter()
        .find(|object| meta::kind(object) == kind && meta::name(object) == name);
    found.unwrap_or_else(|| panic!("no {kind} {name}"))
}

#[test]
fn default_roles_match_kubernetes_1_36() {
    let objects = read(TEXT).unwrap();
    let count = |kind: &str| objects.iter().filter(|o| meta::kind(o) == kind).count();
    assert_eq!(
        (
            count("ClusterRole"),
            count("ClusterRoleBinding"),
            count("Role"),
            count("RoleBinding")
        ),
        (31 + 38, 12 + 38, 7, 7)
    );
    assert_eq!(
        default("ClusterRole", "cluster-admin")["rules"],
        json!([
            {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
            {"verbs": ["*"], "nonResourceURLs": ["*"]},
        ])
    );
}

#[test]
fn every_binding_has_its_role() {
    for object in read(TEXT).unwrap() {
        if let Some(role) = object.get("roleRef") {
            let kind = role["kind"].as_str().unwrap();
            default(kind, role["name"].as_str().unwrap());
        }
    }
}

#[test]
fn aggregated_roles_are_left_to_a_controller() {
    let edit = default("ClusterRole", "edit");
    assert_eq!(edit["rules"], Value::Null);
    assert_eq!(
        edit["aggregationRule"],
        json!({"clusterRoleSelectors": [
            {"matchLabels": {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}},
        ]})
    );
    assert_eq!(
        meta::label(&edit, "rbac.authorization.k8s.io/aggregate-to-admin"),
        Some("true")
    );
}

#[test]
fn table_errors_name_the_line() {
    for (text, why) in [
        (
            "Rule x",
            "line 1 of the table of roles: no object begins like this",
        ),
        (
            "\n  get | /x",
            "line 2 of the table of roles: no object yet",
        ),
        (
            "ClusterRole x\n  get",
            "line 2 of the table of roles: no part of an object",
        ),
        (
            "ClusterRoleBinding x\n  Robot y",
            "line 2 of the table of roles: no part of an object",
        ),
    ] {
        assert_eq!(read(text), Err(why.to_owned()));
    }
}

#[test]
fn current_objects_are_left_alone() {
    for object in read(TEXT).unwrap() {
        assert_eq!(reconcile(&object, &object), Action::Nothing, "{object}");
    }
}

#[test]
fn missing_rules_are_restored_and_additions_kept() {
    let expected = default("ClusterRole", "system:basic-user");
    let mut role = expected.clone();
    role["metadata"]["labels"] = json!({"mine": "yes"});
    role["rules"] =
        json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}, expected["rules"][1]]);
    let Action::Update(mended) = reconcile(&role, &expected) else {
        panic!("nothing to mend");
    };
    assert_eq!(
        mended["metadata"]["labels"],
        json!({"mine": "yes", "kubernetes.io/bootstrapping": "rbac-defaults"})
    );
    // Each in its smallest form, as upstream adds them.
    let review = |plural: &str| json!({"verbs": ["create"], "apiGroups": ["authorization.k8s.io"], "resources": [plural]});
    assert_eq!(
        mended["rules"],
        json!([
            role["rules"][0],
            role["rules"][1],
            review("selfsubjectaccessreviews"),
            review("selfsubjectrulesreviews"),
        ])
    );
}

#[test]
fn missing_subjects_are_restored_and_additions_kept() {
    let expected = default("ClusterRoleBinding", "system:public-info-viewer");
    let mut binding = expected.clone();
    let other = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "x"});
    binding["subjects"] = json!([other]);
    let Action::Update(mended) = reconcile(&binding, &expected) else {
        panic!("nothing to mend");
    };
    let mut subjects = vec![other];
    subjects.extend(expected["subjects"].as_array().unwrap().clone());
    assert_eq!(mended["subjects"], json!(subjects));
}

#[test]
fn binding_of_another_role_is_recreated() {
    let expected = default("ClusterRoleBinding", "system:discovery");
    let mut binding = expected.clone();
    binding["roleRef"]["name"] = "cluster-admin".into();
    assert_eq!(reconcile(&binding, &expected), Action::Recreate);
}

#[test]
fn autoupdate_annotation_disables_reconciliation() {
    let expected = default("ClusterRoleBinding", "system:discovery");
    let mut binding = expected.clone();
    binding["subjects"] = json!([]);
    meta::set_annotation(
        &mut binding,
        "rbac.authorization.kubernetes.io/autoupdate",
        Some("false"),
    );
    assert_eq!(reconcile(&binding, &expected), Action::Nothing);
}

#[test]
fn aggregation_rule_follows_the_default() {
    let expected = default("ClusterRole", "view");
    let mut role = expected.clone();
    role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
    let Action::Update(mended) = reconcile(&role, &expected) else {
        panic!("nothing to mend");
    };
    assert_eq!(
        mended["aggregationRule"]["clusterRoleSelectors"]
            .as_array()
            .map(Vec::len),
        Some(2)
    );
    let expected = default("ClusterRole", "cluster-admin");
    let mut role = expected.clone();
    role["aggregationRule"] = json!({"clusterRoleSelectors": [{}]});
    assert_eq!(
        reconcile(&role, &expected),
        Action::Update(expected.clone())
    );
}

async fn start(store: &Store) -> ApiServer {
    let key = SigningKey::generate().unwrap();
    let options = Options {
        store: store.clone(),
        token_key: SigningKey::from_pkcs8(&key).unwrap(),
        issuer: "https://x".to_owned(),
        tokens: StaticTokens::default(),
        host: "127.0.0.1".to_owned(),
        port: 6443,
        service_accounts: false,
    };
    ApiServer::start(options).await.unwrap()
}

async fn change(server: &ApiServer, method: &str, path: &str, body: &Value) {
    let request = http::Request::builder()
        .method(method)
        .uri(format!("/apis/rbac.authorization.k8s.io/v1/{path}"))
        .header(
            "content-type",
            if method == "PATCH" {
                "application/merge-patch+json"
            } else {
                "application/json"
            },
        )
        .body(http_body_util::Full::new(bytes::Bytes::from(
            body.to_string(),
        )))
        .unwrap();
    let admin = server.as_user(UserInfo::admin());
    let answer = admin.handle(request).await;
    assert!(answer.status().is_success(), "{method} {path}: {answer:?}");
}

#[tokio::test]
async fn start_restores_default_roles() {
    let store = Store::memory();
    let first = start(&store).await;
    let stored = |key: &str| {
        store
            .get(&format!("/registry/{key}"))
            .map(|entry| entry.object().unwrap())
    };
    let before = stored("clusterroles/system:basic-user").unwrap();
    let revision = before["metadata"]["resourceVersion"].clone();
    change(
        &first,
        "DELETE",
        "clusterroles/system:discovery",
        &json!({}),
    )
    .await;
    let none = json!({"subjects": null});
    change(
        &first,
        "PATCH",
        "clusterrolebindings/system:discovery",
        &none,
    )
    .await;
    let kept = json!({
        "metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}},
        "rules": [],
    });
    change(&first, "PATCH", "clusterroles/system:heapster", &kept).await;
    change(
        &first,
        "DELETE",
        "clusterrolebindings/system:node",
        &json!({}),
    )
    .await;
    let other = json!({
        "metadata": {"name": "system:node"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    });
    change(&first, "PUT", "clusterrolebindings/system:node", &other).await;
    first.stop();

    start(&store).await;
    assert!(stored("clusterroles/system:discovery").is_some());
    let binding = stored("clusterrolebindings/system:discovery").unwrap();
    assert_eq!(binding["subjects"][0]["name"], "system:authenticated");
    assert_eq!(
        stored("clusterroles/system:heapster").unwrap()["rules"],
        Value::Null
    );
    let node = stored("clusterrolebindings/system:node").unwrap();
    assert_eq!(node["roleRef"]["name"], "system:node");
    let after = stored("clusterroles/system:basic-user").unwrap();
    assert_eq!(
        after["metadata"]["resourceVersion"], revision,
        "nothing was wrong with it"
    );
}
