use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn sample() -> Value {
    json!({
        "metadata": {"annotations": {"example.com/a": "x"}},
        "spec": {"size": 3, "items": [{"n": 1}, {"n": 2}, {"n": 3}], "none": null},
        "status": {"conditions": [
            {"type": "Ready", "status": "True", "count": 4},
            {"type": "Other", "status": "False", "ok": true},
        ]},
    })
}

#[rstest]
#[case(".spec.size", json!([3]))]
#[case("$.spec.size", json!([3]))]
#[case(".spec['size']", json!([3]))]
#[case(".metadata.annotations.example\\.com/a", json!(["x"]))]
#[case(".metadata.annotations['example\\.com/a']", json!(["x"]))]
#[case(".spec.items[0].n", json!([1]))]
#[case(".spec.items[-1].n", json!([3]))]
#[case(".spec.items[-2:].n", json!([2, 3]))]
#[case(".spec.items[*].n", json!([1, 2, 3]))]
#[case(".spec.items[0:3:2].n", json!([1, 3]))]
#[case(".spec.items[0,2].n", json!([1, 3]))]
#[case(".spec.items[1:1].n", json!([]))]
#[case("..n", json!([1, 2, 3]))]
#[case(".spec.items.*.n", json!([1, 2, 3]))]
#[case(".status.conditions[?(@.type==\"Ready\")].status", json!(["True"]))]
#[case(".status.conditions[?(@.type=='Ready')].status", json!(["True"]))]
#[case(".status.conditions[?(@.type!=\"Ready\")].status", json!(["False"]))]
#[case(".status.conditions[?(@.ok)].type", json!(["Other"]))]
#[case(".status.conditions[?(@.ok==true)].type", json!(["Other"]))]
#[case(".status.conditions[?(@.count>=4)].type", json!(["Ready"]))]
#[case(".status.conditions[?(@.count<4)].type", json!([]))]
#[case(".spec.missing.deeper", json!([]))]
#[case(".spec.none", json!([null]))]
#[case(".spec.none[0]", json!([]))]
#[case(".spec.size.deeper", json!([]))]
fn paths_lead_where_kubectl_goes(#[case] path: &str, #[case] expected: Value) {
    let data = sample();
    let path = JsonPath::parse(path).unwrap();
    let found: Vec<Value> = path.find(&data).unwrap().into_iter().cloned().collect();
    assert_eq!(Value::from(found), expected);
}

#[rstest]
#[case(".spec.items[5]", "array index out of bounds: index 5, length 3")]
#[case(".spec.items[-4]", "array index out of bounds: index -1, length 3")]
#[case(".spec.items[2:1]", "starting index 2 is greater than ending index 1")]
#[case(".spec.items[0:2:0]", "step must be > 0")]
#[case(".spec.size[0]", "number is not array or slice")]
#[case(".spec[?(@.a)]", "cannot be filtered")]
#[case(
    ".status.conditions[?(@.type==1)]",
    "incompatible types for comparison"
)]
fn evaluation_errors(#[case] path: &str, #[case] message: &str) {
    let data = sample();
    let path = JsonPath::parse(path).unwrap();
    let error = path.find(&data).unwrap_err().to_string();
    assert!(error.contains(message), "{error}");
}

#[rstest]
#[case(".a[", "unterminated array")]
#[case(".a[x]", "invalid array index x")]
#[case(".a[1:2:3:4]", "invalid array index 1:2:3:4")]
#[case(".a[?(@.b", "unterminated filter")]
#[case(".a[?(@.b)", "unclosed array expect ]")]
#[case(".a[?(@.b=>1)]", "unrecognized filter operator =>")]
#[case(".a[?(@.b==\"x)]", "unterminated filter")]
#[case("....a", "invalid multiple recursive descent")]
#[case("..*", "unrecognized character in action: U+002A '*'")]
#[case(".a{", "unrecognized character in action: U+007B '{'")]
#[case("a", "unrecognized identifier a")]
#[case(".a\n", "unclosed action")]
#[case("'a", "unterminated quoted string")]
#[case("'\\q'", "unquote string '\\q' error invalid syntax")]
#[case(
    ".a[99999999999999999999]",
    "array index 99999999999999999999 is not a number"
)]
fn parse_errors(#[case] path: &str, #[case] message: &str) {
    assert_eq!(JsonPath::parse(path).unwrap_err().to_string(), message);
}

#[test]
fn work_is_bounded() {
    let mut data = json!("x");
    for _ in 0..200 {
        data = json!([data, "y"]);
    }
    let path = JsonPath::parse("...*...*...*...*").unwrap();
    assert_eq!(path.find(&data), Err(EvalError::TooManyResults));
    assert!(matches!(
        JsonPath::parse(&".a".repeat(10_000)),
        Err(ParseError::TooLong(_))
    ));
}

#[test]
fn simple_paths_get_and_set() {
    let path = SimplePath::parse(".spec.replicas").unwrap();
    let mut object = json!({"spec": {"replicas": 2}});
    assert_eq!(path.get(&object), Some(&json!(2)));
    assert!(path.set(&mut object, json!(5)));
    assert_eq!(object, json!({"spec": {"replicas": 5}}));
    let mut empty = json!({});
    assert!(path.set(&mut empty, json!(1)));
    assert_eq!(empty, json!({"spec": {"replicas": 1}}));
    assert!(!path.set(&mut json!({"spec": 3}), json!(1)));
    assert_eq!(path.to_string(), ".spec.replicas");
    assert_eq!(path.fields().collect::<Vec<_>>(), ["spec", "replicas"]);
    for bad in ["spec.replicas", ".", ".a..b", ".a[0]", ".a.*"] {
        assert_eq!(
            SimplePath::parse(bad),
            Err(SimplePathError::NotSimple),
            "{bad}"
        );
    }
    assert_eq!(SimplePath::parse(""), Err(SimplePathError::Empty));
}

proptest! {
    #[test]
    fn any_path_is_evaluated_or_rejected(text in r#"[.a-c\[\]?()@='"0-9:,*<>\\ -]{0,24}|.*"#) {
        let data = json!({"a": [{"b": 1}, {"c": "x"}], "b": {"a": {"a": [1, 2]}}});
        if let Ok(path) = JsonPath::parse(&text) {
            let _ = path.find(&data);
        }
    }
}
