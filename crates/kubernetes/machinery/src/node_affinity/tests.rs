use rstest::rstest;
use serde_json::{Value, json};

use super::{
    NodeSelector, PreferredNodeAffinity, RequiredNodeAffinity, tolerates, untolerated_taint,
    volume_matches,
};
use crate::field::Path;

fn node() -> Value {
    json!({"metadata": {"name": "n1", "labels": {"arch": "arm64", "os": "linux", "cores": "8"}}})
}

fn terms(terms: &Value) -> Value {
    json!({"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
}

fn required(spec: &Value) -> Result<bool, String> {
    RequiredNodeAffinity::of_pod_spec(spec)
        .matches(&node())
        .map_err(|error| error.to_string())
}

fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
}

#[rstest]
#[case(json!({}), true)]
#[case(json!({"nodeSelector": {}}), true)]
#[case(json!({"nodeSelector": {"arch": "arm64"}}), true)]
#[case(json!({"nodeSelector": {"arch": "arm64", "os": "windows"}}), false)]
#[case(json!({"nodeSelector": {"gone": ""}}), false)]
#[case(json!({"affinity": {}}), true)]
#[case(json!({"affinity": {"nodeAffinity": {}}}), true)]
fn node_selectors_of_pods(#[case] spec: Value, #[case] expected: bool) {
    assert_eq!(required(&spec), Ok(expected));
}

#[rstest]
#[case("arch", "In", &["arm64", "amd64"], true)]
#[case("arch", "In", &["amd64"], false)]
#[case("gone", "In", &[""], false)]
#[case("arch", "NotIn", &["arm64"], false)]
#[case("arch", "NotIn", &["amd64"], true)]
#[case("gone", "NotIn", &["x"], true)]
#[case("arch", "Exists", &[], true)]
#[case("gone", "Exists", &[], false)]
#[case("arch", "DoesNotExist", &[], false)]
#[case("gone", "DoesNotExist", &[], true)]
#[case("cores", "Gt", &["7"], true)]
#[case("cores", "Gt", &["8"], false)]
#[case("cores", "Lt", &["9"], true)]
#[case("cores", "Lt", &["8"], false)]
#[case("arch", "Gt", &["1"], false)]
#[case("gone", "Lt", &["1"], false)]
fn label_operators(
    #[case] key: &str,
    #[case] operator: &str,
    #[case] values: &[&str],
    #[case] expected: bool,
) {
    assert_eq!(
        required(&terms(&json!([expression(key, operator, values)]))),
        Ok(expected)
    );
}

#[rstest]
#[case::no_terms(json!([]), false)]
#[case::empty_term(json!([{}]), false)]
#[case::empty_lists(json!([{"matchExpressions": [], "matchFields": []}]), false)]
#[case::null_term(json!([null]), false)]
#[case::empty_beside_matching(json!([{}, expression("os", "In", &["linux"])]), true)]
#[case::terms_are_alternatives(json!([expression("os", "In", &["x"]), expression("os", "In", &["linux"])]), true)]
#[case::expressions_all_hold(json!([{"matchExpressions": [
    {"key": "os", "operator": "Exists"}, {"key": "arch", "operator": "In", "values": ["x"]}]}]), false)]
#[case::name(json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]), true)]
#[case::other_name(json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}]), false)]
#[case::not_name(json!([{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]}]), false)]
#[case::other_field(json!([{"matchFields": [{"key": "spec.x", "operator": "In", "values": ["n1"]}]}]), false)]
#[case::fields_and_labels(json!([{"matchExpressions": [{"key": "os", "operator": "In", "values": ["windows"]}],
    "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]), false)]
fn required_terms(#[case] list: Value, #[case] expected: bool) {
    assert_eq!(required(&terms(&list)), Ok(expected));
}

#[test]
fn node_selector_and_affinity_both_hold() {
    let mut spec = terms(&json!([expression("os", "In", &["linux"])]));
    spec["nodeSelector"] = json!({"arch": "amd64"});
    assert_eq!(required(&spec), Ok(false));
}

#[rstest]
#[case(json!([expression("a", "Near", &["x"])]),
    "nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: \"Near\": supported values: \"In\", \"NotIn\", \"Exists\", \"DoesNotExist\", \"Gt\", \"Lt\"")]
#[case(json!([{}, expression("a", "In", &[])]),
    "nodeSelectorTerms[1].matchExpressions[0].values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty")]
#[case(json!([expression("a", "Gt", &["x"])]),
    "nodeSelectorTerms[0].matchExpressions[0].values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer")]
#[case(json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]}]),
    "nodeSelectorTerms[0].matchFields[0].values: Invalid value: [\"a\",\"b\"]: must have one element")]
#[case(json!([{"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}]),
    "nodeSelectorTerms[0].matchFields[0].operator: Unsupported value: \"Exists\": supported values: \"In\", \"NotIn\"")]
#[case(json!([expression("a", "Exists", &["x"]), expression("os", "In", &["x"]), expression("b", "Gt", &[])]),
    "[nodeSelectorTerms[0].matchExpressions[0].values: Invalid value: [\"x\"]: values set must be empty for exists and does not exist, nodeSelectorTerms[2].matchExpressions[0].values: Invalid value: null: for 'Gt', 'Lt' operators, exactly one value is required]")]
fn terms_that_make_no_sense(#[case] list: Value, #[case] expected: &str) {
    assert_eq!(required(&terms(&list)), Err(expected.to_owned()));
}

#[test]
fn matching_term_overrides_errors_of_others() {
    let list = json!([
        expression("a", "Near", &[]),
        expression("os", "In", &["linux"])
    ]);
    assert_eq!(required(&terms(&list)), Ok(true));
    let selector = NodeSelector::new(&json!({"nodeSelectorTerms": list}), &Path::new("spec"));
    let errors: Vec<String> = selector.errors().iter().map(ToString::to_string).collect();
    assert_eq!(errors.len(), 1);
    assert!(errors[0].starts_with("spec.nodeSelectorTerms[0].matchExpressions[0].operator: "));
}

fn preferred(list: &Value) -> Result<i64, String> {
    let spec = json!({"affinity": {"nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": list}}});
    PreferredNodeAffinity::of_pod_spec(&spec)
        .map(|affinity| affinity.score(&node()))
        .map_err(|error| error.to_string())
}

#[rstest]
#[case(json!(null), 0)]
#[case(json!([]), 0)]
#[case(json!([{"weight": 10, "preference": {}}]), 0)]
#[case(json!([{"weight": 10, "preference": expression("os", "In", &["linux"])}]), 10)]
#[case(json!([{"weight": 10, "preference": expression("os", "In", &["linux"])},
    {"weight": 7, "preference": expression("os", "In", &["windows"])},
    {"weight": 5, "preference": expression("arch", "Exists", &[])}]), 15)]
#[case::weightless_terms_are_not_read(json!([{"weight": 0, "preference": expression("os", "Near", &[])}]), 0)]
fn preferred_terms_add_up(#[case] list: Value, #[case] expected: i64) {
    assert_eq!(preferred(&list), Ok(expected));
}

#[test]
fn invalid_preferred_terms_invalidate_all() {
    let list = json!([{"weight": 1, "preference": expression("os", "In", &["linux"])},
        {"weight": 1, "preference": expression("os", "Lt", &["x"])}]);
    assert_eq!(
        preferred(&list),
        Err("[1].matchExpressions[0].values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer".to_owned())
    );
}

#[rstest]
#[case(json!({}), true)]
#[case(json!({"nodeAffinity": {}}), true)]
#[case(json!({"nodeAffinity": {"required": {"nodeSelectorTerms": []}}}), false)]
#[case(json!({"nodeAffinity": {"required": {"nodeSelectorTerms": [expression("arch", "In", &["arm64"])]}}}), true)]
#[case(json!({"nodeAffinity": {"required": {"nodeSelectorTerms": [expression("arch", "In", &["amd64"])]}}}), false)]
#[case::fields_do_not_count(json!({"nodeAffinity": {"required": {"nodeSelectorTerms": [
    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["other"]}]}]}}}), true)]
fn volumes(#[case] spec: Value, #[case] expected: bool) {
    assert_eq!(volume_matches(&spec, &node()), Ok(expected));
}

#[rstest]
#[case::equal(json!({"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}), true)]
#[case::operator_defaults_to_equal(json!({"key": "k", "value": "v"}), true)]
#[case::other_value(json!({"key": "k", "value": "w"}), false)]
#[case::exists(json!({"key": "k", "operator": "Exists"}), true)]
#[case::other_key(json!({"key": "l", "operator": "Exists"}), false)]
#[case::every_key(json!({"operator": "Exists"}), true)]
#[case::every_key_of_an_effect(json!({"operator": "Exists", "effect": "NoExecute"}), false)]
#[case::other_effect(json!({"key": "k", "value": "v", "effect": "NoExecute"}), false)]
#[case::empty_key_equal_value(json!({"value": "v"}), true)]
#[case::comparison_is_off(json!({"key": "k", "operator": "Gt", "value": "1"}), false)]
#[case::unknown_operator(json!({"key": "k", "operator": "Near"}), false)]
fn tolerations(#[case] toleration: Value, #[case] expected: bool) {
    let taint = json!({"key": "k", "value": "v", "effect": "NoSchedule"});
    assert_eq!(tolerates(&[toleration], &taint), expected);
}

#[test]
fn the_first_untolerated_taint_is_found() {
    let taints = [
        json!({"key": "a", "effect": "NoSchedule"}),
        json!({"key": "b", "effect": "PreferNoSchedule"}),
        json!({"key": "c", "effect": "NoExecute"}),
    ];
    let hard = ["NoSchedule", "NoExecute"];
    let tolerations = [json!({"key": "a", "operator": "Exists"})];
    let key = |taint: Option<&Value>| taint.map(|taint| taint["key"].as_str().unwrap().to_owned());
    assert_eq!(
        key(untolerated_taint(&taints, &[], &hard)),
        Some("a".into())
    );
    assert_eq!(
        key(untolerated_taint(&taints, &tolerations, &hard)),
        Some("c".into())
    );
    assert_eq!(
        key(untolerated_taint(&taints, &tolerations, &[])),
        Some("b".into())
    );
    assert_eq!(
        key(untolerated_taint(
            &taints,
            &[json!({"operator": "Exists"})],
            &[]
        )),
        None
    );
    assert_eq!(key(untolerated_taint(&taints[1..2], &[], &hard)), None);
}
