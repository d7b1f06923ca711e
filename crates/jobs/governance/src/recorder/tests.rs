use k8s_openapi::ByteString;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

/// The registration as the webhook creates it.
fn installed() -> Value {
    json!({ "webhooks": [{
        "name": "approval.advisor.kubevirt.io",
        "clientConfig": { "url": "https://127.0.0.1:9443/admit", "caBundle": "Y2E=" },
        "rules": [{
            "apiGroups": ["advisor.kubevirt.io"], "apiVersions": ["v1alpha1"],
            "resources": ["virtplatformconfigs"], "scope": "Cluster",
            "operations": ["CREATE", "UPDATE"],
        }],
        "failurePolicy": "Fail", "matchPolicy": "Equivalent", "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        // Defaults that the API server adds.
        "namespaceSelector": {}, "objectSelector": {},
    }] })
}

fn judge(registration: &Value) -> Recorder {
    let read = serde_json::from_value(registration.clone()).unwrap();
    verify(Some(&read), None)
}

#[test]
fn registration_as_installed_is_trusted() {
    assert_eq!(judge(&installed()), Recorder::Trusted);
}

#[test]
fn missing_registration_is_not_trusted() {
    assert!(!verify(None, None).is_trusted());
}

#[rstest]
#[case::failure_policy("/webhooks/0/failurePolicy", json!("Ignore"), "failurePolicy is Ignore")]
#[case::creations("/webhooks/0/rules/0/operations", json!(["UPDATE"]), "no rule covers CREATE")]
#[case::updates("/webhooks/0/rules/0/operations", json!(["CREATE", "DELETE"]), "no rule covers UPDATE")]
#[case::group("/webhooks/0/rules/0/apiGroups", json!(["apps"]), "no rule covers CREATE")]
#[case::version("/webhooks/0/rules/0/apiVersions", json!(["v1"]), "no rule covers CREATE")]
#[case::resource("/webhooks/0/rules/0/resources", json!(["virtplatformconfigs/status"]), "no rule covers CREATE")]
#[case::scope("/webhooks/0/rules/0/scope", json!("Namespaced"), "no rule covers CREATE")]
#[case::rules("/webhooks/0/rules", json!([]), "no rule covers CREATE")]
#[case::objects("/webhooks/0/objectSelector", json!({ "matchLabels": { "a": "b" } }), "selector")]
#[case::namespaces(
    "/webhooks/0/namespaceSelector",
    json!({ "matchExpressions": [{ "key": "a", "operator": "Exists" }] }),
    "selector"
)]
#[case::bundle("/webhooks/0/clientConfig/caBundle", json!(""), "caBundle is empty")]
#[case::name("/webhooks/0/name", json!("other.example.org"), "has no webhook")]
fn altered_registration_is_not_trusted(
    #[case] field: &str,
    #[case] value: Value,
    #[case] why: &str,
) {
    let mut registration = installed();
    *registration.pointer_mut(field).unwrap() = value;
    match judge(&registration) {
        Recorder::Untrusted(reason) => assert!(reason.contains(why), "{reason}"),
        Recorder::Trusted => panic!("trusted: {registration}"),
    }
}

#[test]
fn match_conditions_are_not_trusted() {
    let mut registration = installed();
    registration["webhooks"][0]["matchConditions"] =
        json!([{ "name": "not-eve", "expression": "request.userInfo.username != 'eve'" }]);
    assert!(!judge(&registration).is_trusted());
}

#[test]
fn unpublished_ca_is_not_trusted() {
    let mut read: MutatingWebhookConfiguration = serde_json::from_value(installed()).unwrap();
    assert!(verify(Some(&read), Some(b"ca\n")).is_trusted());
    let webhook = read.webhooks.as_mut().unwrap().first_mut().unwrap();
    webhook.client_config.ca_bundle = Some(ByteString(b"mine".to_vec()));
    assert!(!verify(Some(&read), Some(b"ca\n")).is_trusted());
}

/// During a CA rotation the webhook publishes the old and the new CA.
#[test]
fn subset_of_the_published_ca_bundle_is_trusted() {
    let certificate = |name: &str| format!("-----BEGIN CERTIFICATE-----\n{name}\n{PEM_END}\n");
    let (old, new) = (certificate("old"), certificate("new"));
    let mut read: MutatingWebhookConfiguration = serde_json::from_value(installed()).unwrap();
    let webhook = read.webhooks.as_mut().unwrap().first_mut().unwrap();
    webhook.client_config.ca_bundle = Some(ByteString(old.clone().into_bytes()));
    let published = format!("{new}{old}");
    assert!(verify(Some(&read), Some(published.as_bytes())).is_trusted());
    assert!(!verify(Some(&read), Some(new.as_bytes())).is_trusted());
}

#[test]
fn api_server_defaults_are_trusted() {
    let mut registration = installed();
    let webhook = registration["webhooks"][0].as_object_mut().unwrap();
    webhook.remove("failurePolicy");
    webhook["rules"][0].as_object_mut().unwrap().remove("scope");
    assert_eq!(judge(&registration), Recorder::Trusted);
}
