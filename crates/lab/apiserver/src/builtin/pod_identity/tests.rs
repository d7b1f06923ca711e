use rstest::rstest;
use serde_json::{Value, json};

use super::{DEFAULT, MOUNT, admit, required_account};
use crate::builtin::value::Read;

fn pod(spec: &Value) -> Value {
    json!({"metadata": {"name": "pod"}, "spec": spec})
}

fn plain() -> Value {
    pod(&json!({
        "initContainers": [{"name": "init"}],
        "containers": [{"name": "main", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
        "volumes": [{"name": "data", "emptyDir": {}}],
    }))
}

/// A pod after the admission of its account.
fn admitted(mut pod: Value, account: &Value) -> Value {
    admit(&mut pod, DEFAULT, account, || 0).expect("it is allowed");
    pod
}

#[test]
fn token_is_mounted_in_every_container() {
    let pod = admitted(plain(), &json!({}));
    let name = "kube-api-access-bbbbb";
    let mount = json!({"name": name, "readOnly": true, "mountPath": MOUNT});
    let init = &pod["spec"]["initContainers"][0];
    assert_eq!(init["volumeMounts"], json!([mount]));
    let main = &pod["spec"]["containers"][0];
    assert_eq!(main["volumeMounts"][1], mount);
    assert_eq!(
        pod["spec"]["volumes"][1],
        json!({
            "name": name,
            "projected": {
                "defaultMode": 420,
                "sources": [
                    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                    {"configMap": {
                        "name": "kube-root-ca.crt",
                        "items": [{"key": "ca.crt", "path": "ca.crt"}],
                    }},
                    {"downwardAPI": {"items": [{
                        "path": "namespace",
                        "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                    }]}},
                ],
            },
        })
    );
    assert_eq!(pod.text("spec.serviceAccountName"), DEFAULT);
    assert_eq!(pod.text("spec.serviceAccount"), DEFAULT);
}

#[test]
fn second_admission_changes_nothing() {
    let once = admitted(plain(), &json!({}));
    assert_eq!(admitted(once.clone(), &json!({})), once);
}

#[test]
fn existing_mount_is_kept() {
    let own = json!([{"name": "data", "mountPath": MOUNT}]);
    let given = pod(&json!({
        "containers": [{"name": "main", "volumeMounts": own}],
        "volumes": [{"name": "data", "emptyDir": {}}],
    }));
    let pod = admitted(given, &json!({}));
    assert_eq!(pod["spec"]["containers"][0]["volumeMounts"], own);
    assert_eq!(pod.count("spec.volumes"), 1, "no container needs the token");
}

#[rstest]
#[case::by_default(None, None, true)]
#[case::account_says_no(None, Some(false), false)]
#[case::pod_says_no(Some(false), Some(true), false)]
#[case::pod_says_yes(Some(true), Some(false), true)]
fn automount_setting_of_pod_precedes_account(
    #[case] pod: Option<bool>,
    #[case] account: Option<bool>,
    #[case] mounted: bool,
) {
    let mut given = plain();
    given["spec"]["automountServiceAccountToken"] = json!(pod);
    let account = json!({"automountServiceAccountToken": account});
    let admitted = admitted(given, &account);
    assert_eq!(admitted.count("spec.volumes") == 2, mounted);
}

#[test]
fn pull_secrets_come_from_the_account_unless_the_pod_has_some() {
    let account = json!({"imagePullSecrets": [{"name": "registry"}]});
    let pod = admitted(plain(), &account);
    assert_eq!(
        pod.at("spec.imagePullSecrets"),
        &json!([{"name": "registry"}])
    );
    let mut given = plain();
    given["spec"]["imagePullSecrets"] = json!([{"name": "own"}]);
    let pod = admitted(given, &account);
    assert_eq!(pod.at("spec.imagePullSecrets"), &json!([{"name": "own"}]));
}

#[test]
fn missing_account_defaults() {
    assert_eq!(required_account(&plain()), Ok(Some("default".into())));
    let named = pod(&json!({"serviceAccountName": "robot"}));
    assert_eq!(required_account(&named), Ok(Some("robot".into())));
}

#[rstest]
#[case::nothing(&json!({}), None)]
#[case::account(&json!({"serviceAccountName": "a"}), Some("a mirror pod may not reference service accounts"))]
#[case::secret(&json!({"volumes": [{"secret": {"secretName": "a"}}]}), Some("a mirror pod may not reference secrets"))]
#[case::variable(&json!({"containers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "a"}}}]}]}), Some("a mirror pod may not reference secrets"))]
#[case::token(&json!({"volumes": [{"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]}), Some("a mirror pod may not use ServiceAccountToken volume projections"))]
fn mirror_pods_have_no_account_and_no_secrets(#[case] spec: &Value, #[case] refused: Option<&str>) {
    let mut pod = pod(spec);
    pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "hash"});
    match refused {
        None => assert_eq!(required_account(&pod), Ok(None)),
        Some(why) => assert_eq!(required_account(&pod), Err(why.to_owned())),
    }
}

#[rstest]
#[case::volume(
    &json!({"volumes": [{"name": "v", "secret": {"secretName": "odd"}}]}),
    "volume with secret.secretName=\"odd\" is not allowed because service account robot does not reference that secret"
)]
#[case::variable(
    &json!({"containers": [{"name": "c", "env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": "odd", "key": "k"}}}]}]}),
    "container c with envVar E referencing secret.secretName=\"odd\" is not allowed because service account robot does not reference that secret"
)]
#[case::source(
    &json!({"initContainers": [{"name": "c", "envFrom": [{"secretRef": {"name": "odd"}}]}]}),
    "init container c with envFrom referencing secret.secretName=\"odd\" is not allowed because service account robot does not reference that secret"
)]
#[case::pull(
    &json!({"imagePullSecrets": [{"name": "known"}]}),
    "imagePullSecrets[0].name=\"known\" is not allowed because service account robot does not reference that imagePullSecret"
)]
fn account_may_restrict_secrets_of_its_pods(#[case] spec: &Value, #[case] why: &str) {
    let mut account = json!({
        "metadata": {"name": "robot", "annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}},
        "secrets": [{"name": "known"}],
    });
    let refused = admit(&mut pod(spec), "robot", &account, || 0);
    assert_eq!(refused, Err(why.to_owned()));
    account["metadata"]["annotations"] = json!({});
    assert_eq!(admit(&mut pod(spec), "robot", &account, || 0), Ok(()));
}
