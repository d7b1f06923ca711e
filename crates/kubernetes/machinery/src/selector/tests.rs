use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::{FieldSelector, LabelSelector};

fn label(text: &str) -> LabelSelector {
    LabelSelector::parse(text).unwrap()
}

#[rstest]
#[case("", "")]
#[case("  ", "")]
#[case("a", "a")]
#[case("!a", "!a")]
#[case("a=b", "a=b")]
#[case("a==b", "a==b")]
#[case("a != b", "a!=b")]
#[case("a=", "a=")]
#[case("a=,b", "a=,b")]
#[case("b,a", "a,b")]
#[case("x in (c,b,a,b)", "x in (a,b,c)")]
#[case("x notin (a)", "x notin (a)")]
#[case("x in ()", "x in ()")]
#[case("x in (,)", "x in ()")]
#[case("x in (a,,)", "x in (,a)")]
#[case("x in (in,notin)", "x in (in,notin)")]
#[case("in=in", "in=in")]
#[case("in in (a)", "in in (a)")]
#[case("a>1,b<2", "a>1,b<2")]
#[case("example.com/a=b", "example.com/a=b")]
#[case("\ta\n=\rb ", "a=b")]
fn label_selectors_print_in_one_form(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(label(text).to_string(), expected);
}

const KEY: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

#[rstest]
#[case(
    "a inn (b)",
    "unable to parse requirement: found 'inn', expected: in, notin, =, ==, !=, gt, lt"
)]
#[case(
    "a b",
    "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"
)]
#[case(
    "a(",
    "unable to parse requirement: found '(', expected: in, notin, =, ==, !=, gt, lt"
)]
#[case("!", "unable to parse requirement: found '', expected: identifier")]
#[case("!!a", "unable to parse requirement: found '!', expected: identifier")]
#[case("!a=b", "found '=', expected: ',' or 'end of string'")]
#[case("=a", "found '=', expected: !, identifier, or 'end of string'")]
#[case(",a", "found ',', expected: !, identifier, or 'end of string'")]
#[case("a,", "found '', expected: identifier after ','")]
#[case("a,,b", "found ',', expected: identifier after ','")]
#[case("a=b c", "found 'c', expected: ',' or 'end of string'")]
#[case("a=!", "unable to parse requirement: found '!', expected: identifier")]
#[case(
    "a===b",
    "unable to parse requirement: found '=', expected: identifier"
)]
#[case("a in", "unable to parse requirement: found '' expected: '('")]
#[case("a in b", "unable to parse requirement: found 'b' expected: '('")]
#[case(
    "a in (",
    "unable to parse requirement: found '', expected: ',', ')' or identifier"
)]
#[case(
    "a in (b",
    "unable to parse requirement: found '', expected: ',' or ')'"
)]
#[case(
    "a in (b=)",
    "unable to parse requirement: found '=', expected: ',' or ')'"
)]
#[case(
    "a in (b,=)",
    "unable to parse requirement: found '=', expected: ',', or identifier"
)]
#[case(
    "a<-2",
    "unable to parse requirement: values[0][a]: Invalid value: \"-2\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)]
#[case(
    "a>x",
    "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer"
)]
fn bad_label_selectors(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(LabelSelector::parse(text).unwrap_err(), expected);
}

#[test]
fn invalid_keys_and_values_name_the_expected_form() {
    assert_eq!(
        LabelSelector::parse("-a=b").unwrap_err(),
        format!("unable to parse requirement: <nil>: Invalid value: \"-a\": {KEY}")
    );
    assert_eq!(
        LabelSelector::parse("a=-b").unwrap_err(),
        format!("unable to parse requirement: values[0][a]: Invalid value: \"-b\": {VALUE}")
    );
    assert_eq!(
        LabelSelector::parse("a in (-b,b-)").unwrap_err(),
        format!(
            "unable to parse requirement: [values[0][a]: Invalid value: \"-b\": {VALUE}, values[1][a]: Invalid value: \"b-\": {VALUE}]"
        )
    );
}

#[rstest]
#[case("", true, true)]
#[case("tier=web", true, false)]
#[case("tier=", false, false)]
#[case("tier!=web", false, true)]
#[case("tier in (web,db)", true, false)]
#[case("tier notin (web,db)", false, true)]
#[case("tier", true, false)]
#[case("!tier", false, true)]
#[case("n>4", true, false)]
#[case("n>5", false, false)]
#[case("n<6", true, false)]
#[case("tier>1", false, false)]
#[case("tier=web,n=6", false, false)]
fn label_selectors_match(#[case] text: &str, #[case] labelled: bool, #[case] bare: bool) {
    let selector = label(text);
    let object = json!({"metadata": {"labels": {"tier": "web", "n": "5"}}});
    assert_eq!(selector.matches_object(&object), labelled);
    assert_eq!(selector.matches_object(&json!({"metadata": {}})), bare);
    let labels = object["metadata"]["labels"].as_object().unwrap();
    assert_eq!(selector.matches_labels(labels), labelled);
}

#[rstest]
#[case(json!({}), "")]
#[case(json!({"matchLabels": {"b": "2", "a": "1"}}), "a=1,b=2")]
#[case(json!({"matchLabels": {"app": "d1"}, "matchExpressions": [
    {"key": "t", "operator": "In", "values": ["z", "y"]},
    {"key": "u", "operator": "NotIn", "values": ["q"]},
    {"key": "a", "operator": "Exists"},
    {"key": "v", "operator": "DoesNotExist", "values": []}]}), "a,app=d1,t in (y,z),u notin (q),!v")]
fn label_selector_objects(#[case] object: Value, #[case] expected: &str) {
    let selector = LabelSelector::from_label_selector_object(&object).unwrap();
    assert_eq!(selector.to_string(), expected);
    assert_eq!(selector.is_empty(), expected.is_empty());
}

#[test]
fn no_selector_object_selects_nothing_and_an_empty_one_everything() {
    let nothing = LabelSelector::from_label_selector_object(&Value::Null).unwrap();
    assert!(!nothing.is_empty());
    assert!(!nothing.matches_object(&json!({})));
    let everything = LabelSelector::from_label_selector_object(&json!({})).unwrap();
    assert!(everything.matches_object(&json!({})));
}

#[rstest]
#[case(json!({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}),
    "\"Gt\" is not a valid label selector operator")]
#[case(json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
    "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty")]
#[case(json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}),
    "values: Invalid value: [\"x\"]: values set must be empty for exists and does not exist")]
fn bad_label_selector_objects(#[case] object: Value, #[case] expected: &str) {
    assert_eq!(
        LabelSelector::from_label_selector_object(&object).unwrap_err(),
        expected
    );
}

#[rstest]
#[case("", "")]
#[case("metadata.name=a", "metadata.name=a")]
#[case("metadata.name==a", "metadata.name=a")]
#[case("b!=2,a=1", "a=1,b!=2")]
#[case(",a=1,", "a=1")]
#[case(r"a=x\,y\=z\\", r"a=x\,y\=z\\")]
#[case("a=", "a=")]
#[case("=a", "=a")]
fn field_selectors_print_in_one_form(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(FieldSelector::parse(text).unwrap().to_string(), expected);
}

#[rstest]
#[case("a", "invalid selector: 'a'; can't understand 'a'")]
#[case(
    "b=1,a in (x)",
    "invalid selector: 'b=1,a in (x)'; can't understand 'a in (x)'"
)]
#[case("a=b=c", "invalid field selector: unescaped character in value: 61")]
#[case(r"a=\x", r"invalid field selector: invalid escape sequence: \x")]
#[case(r"a=x\", r"invalid field selector: invalid escape sequence: \")]
fn bad_field_selectors(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(FieldSelector::parse(text).unwrap_err(), expected);
}

#[test]
fn field_selectors_match() {
    let selector =
        FieldSelector::parse(r"metadata.name=a,spec.x!=y,spec.gone=,spec.z=p\,q").unwrap();
    let fields = |z: &'static str| {
        move |field: &str| match field {
            "metadata.name" => Some("a".to_owned()),
            "spec.z" => Some(z.to_owned()),
            _ => None,
        }
    };
    assert!(selector.matches(fields("p,q")));
    assert!(!selector.matches(fields("p")));
    assert!(!selector.is_empty());
    assert!(FieldSelector::default().matches(fields("")));
    assert_eq!(selector.requires_exact("metadata.name"), Some("a"));
    assert_eq!(
        selector.requires_exact("spec.x"),
        None,
        "a value to differ from pins nothing"
    );
    assert_eq!(selector.requirements().len(), 4);
}

fn requirement() -> impl Strategy<Value = String> {
    let key = prop_oneof![
        "[a-z]([a-z0-9.-]{0,5}[a-z0-9])?",
        r"ex\.io/[A-Z][a-z_]{0,3}[a-z]"
    ];
    let value = "([a-zA-Z0-9]([a-z._-]{0,4}[a-z0-9])?)?";
    let rest = prop_oneof![
        Just(String::new()),
        value.prop_map(|v| format!("={v}")),
        value.prop_map(|v| format!("=={v}")),
        value.prop_map(|v| format!("!={v}")),
        any::<i64>().prop_map(|v| format!(">{}", v.unsigned_abs() >> 1)),
        prop::collection::vec(value, 1..4).prop_map(|v| format!(" in ({})", v.join(","))),
        prop::collection::vec(value, 1..4).prop_map(|v| format!(" notin ( {} )", v.join(" , "))),
    ];
    (any::<bool>(), key, rest).prop_map(|(not, key, rest)| {
        if not {
            format!("!{key}")
        } else {
            format!("{key}{rest}")
        }
    })
}

proptest! {
    #[test]
    fn label_selectors_round_trip(parts in prop::collection::vec(requirement(), 0..5)) {
        let selector = label(&parts.join(" , "));
        let again = label(&selector.to_string());
        prop_assert_eq!(&again, &selector);
        prop_assert_eq!(again.to_string(), selector.to_string());
    }

    #[test]
    fn field_selectors_round_trip(values in prop::collection::btree_map("[a-z.]{1,4}", "[a-z,=\\\\! ]{0,6}", 0..4)) {
        let text: Vec<String> = values
            .iter()
            .map(|(field, value)| {
                let value = value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
                format!("{field}!={value}")
            })
            .collect();
        let selector = FieldSelector::parse(&text.join(",")).unwrap();
        for one in selector.requirements() {
            prop_assert_eq!(&values[&one.field], &one.value);
        }
        prop_assert_eq!(selector.requirements().len(), values.len());
        prop_assert_eq!(FieldSelector::parse(&selector.to_string()).unwrap(), selector);
    }

    #[test]
    fn parsing_never_panics(text in "[a-c!=<>(), \\\\\0é]{0,12}") {
        let _ = LabelSelector::parse(&text);
        let _ = FieldSelector::parse(&text);
    }
}
