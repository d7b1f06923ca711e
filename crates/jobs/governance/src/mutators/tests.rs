use api::advisor::TargetRef;
use rstest::rstest;
use serde_json::{Value, json};

use super::of_target;

fn target() -> TargetRef {
    TargetRef {
        api_version: "operator.openshift.io/v1".to_owned(),
        kind: "KubeDescheduler".to_owned(),
        name: "cluster".to_owned(),
        namespace: None,
    }
}

fn rule(group: &str, resource: &str, operation: &str) -> Value {
    json!([{
        "apiGroups": [group], "apiVersions": ["v1beta1"], "resources": [resource], "operations": [operation],
    }])
}

#[rstest]
#[case::exact(rule("operator.openshift.io", "kubedeschedulers", "UPDATE"), true)]
#[case::everything(rule("*", "*", "*"), true)]
#[case::other_group(rule("apps", "*", "*"), false)]
#[case::other_resource(rule("*", "etcds", "*"), false)]
#[case::subresource(rule("*", "kubedeschedulers/status", "*"), false)]
#[case::deletions(rule("*", "*", "DELETE"), false)]
#[case::none(json!([]), false)]
fn mutator_is_a_candidate_by_its_rules(#[case] rules: Value, #[case] expected: bool) {
    let policy = json!({
        "metadata": { "name": "floor" }, "spec": { "matchConstraints": { "resourceRules": rules } },
    });
    let webhook = json!({
        "metadata": { "name": "guard" }, "webhooks": [{ "name": "limits.example.com", "rules": rules }],
    });
    let names = |kind: &str, registration: Value| -> Vec<String> {
        let found = of_target(kind, &[registration], &target(), "kubedeschedulers");
        found.into_iter().map(|one| one.name).collect()
    };
    let of_policy = names("MutatingAdmissionPolicy", policy);
    let of_webhook = names("MutatingWebhookConfiguration", webhook);
    if expected {
        assert_eq!(of_policy, ["MutatingAdmissionPolicy floor"]);
        let name = "webhook limits.example.com of MutatingWebhookConfiguration guard";
        assert_eq!(of_webhook, [name]);
    } else {
        assert_eq!((of_policy, of_webhook), (vec![], vec![]));
    }
}
