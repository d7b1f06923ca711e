use machinery::selector::LabelSelector;
use rstest::rstest;
use serde_json::{Value, json};

use super::matching::{Rule, RuleInputs, object_matches};
use super::review::{self, InvalidResponse};

fn asked() -> RuleInputs<'static> {
    RuleInputs {
        operation: "UPDATE",
        group: "apps",
        version: "v1",
        plural: "deployments",
        subresource: "",
        namespaced: true,
    }
}

fn rule(change: &Value) -> Rule {
    let mut rule = json!({
        "operations": ["UPDATE"], "apiGroups": ["apps"], "apiVersions": ["v1"],
        "resources": ["deployments"], "scope": "*",
    });
    if let (Some(rule), Some(change)) = (rule.as_object_mut(), change.as_object()) {
        rule.extend(change.clone());
    }
    Rule::read(&rule)
}

#[rstest]
#[case(json!({}), true)]
#[case(json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}), true)]
#[case(json!({"operations": ["CREATE", "DELETE"]}), false)]
#[case(json!({"apiGroups": [""]}), false)]
#[case(json!({"apiVersions": ["v1beta1"]}), false)]
#[case(json!({"resources": ["deployments/*"]}), true)]
#[case(json!({"resources": ["deployments/status"]}), false)]
#[case(json!({"resources": ["*/*"]}), true)]
#[case(json!({"resources": ["*/scale"]}), false)]
#[case(json!({"scope": "Namespaced"}), true)]
#[case(json!({"scope": "Cluster"}), false)]
fn rules_match_exactly(#[case] change: Value, #[case] expected: bool) {
    assert_eq!(rule(&change).matches(&asked()), expected, "{change}");
}

#[rstest]
#[case("status", "deployments", false)]
#[case("status", "deployments/status", true)]
#[case("status", "*/status", true)]
#[case("status", "*", false)]
#[case("scale", "*/*", true)]
fn subresources_have_to_be_named(
    #[case] part: &str,
    #[case] resource: &str,
    #[case] expected: bool,
) {
    let asked = RuleInputs {
        subresource: part,
        ..asked()
    };
    let rule = rule(&json!({"resources": [resource]}));
    assert_eq!(rule.matches(&asked), expected, "{resource} for {part}");
}

#[test]
fn either_object_may_have_the_labels() {
    let selector = LabelSelector::parse("color=red").unwrap();
    let red = json!({"metadata": {"labels": {"color": "red"}}});
    let plain = json!({"metadata": {}});
    assert!(object_matches(&selector, &red, None));
    assert!(object_matches(&selector, &plain, Some(&red)));
    assert!(object_matches(&selector, &Value::Null, Some(&red)));
    assert!(!object_matches(&selector, &plain, Some(&plain)));
    // Even an absent object does not match a negative selector.
    let without = LabelSelector::parse("!color").unwrap();
    assert!(!object_matches(&without, &Value::Null, None));
}

fn answered(version: &str, mutating: bool, response: &Value) -> Result<bool, InvalidResponse> {
    let review = json!({
        "kind": "AdmissionReview",
        "apiVersion": format!("admission.k8s.io/{version}"),
        "response": response,
    });
    let bytes = review.to_string().into_bytes();
    review::answer(version, "u", mutating, &bytes).map(|answer| answer.allowed)
}

#[test]
fn v1beta1_responses_are_not_strictly_validated() {
    let odd = json!({"uid": "other", "allowed": true, "patch": "W10="});
    assert_eq!(answered("v1beta1", true, &odd), Ok(true));
    assert_eq!(
        answered("v1", true, &odd),
        Err(InvalidResponse::Invalid(
            "expected response.uid=\"u\", got \"other\"".to_owned()
        ))
    );
}

#[test]
fn validating_webhooks_must_not_patch() {
    let patch = json!({"uid": "u", "allowed": true, "patch": "W10=", "patchType": "JSONPatch"});
    assert_eq!(answered("v1", true, &patch), Ok(true));
    assert_eq!(
        answered("v1", false, &patch),
        Err(InvalidResponse::Invalid(
            "validating webhook may not return response.patch".to_owned()
        ))
    );
}

#[test]
fn other_kinds_are_no_admission_review() {
    let body = br#"{"response": {"uid": "u", "allowed": true}}"#;
    assert_eq!(
        review::answer("v1", "u", false, body),
        Err(InvalidResponse::Invalid(
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind="
                .to_owned()
        ))
    );
}
